// SPDX-License-Identifier: MIT
// The switch between two fibers of one host thread (x86-64, System V): callee-saved registers and the stack pointer.
#pragma once

// Saves the running fiber's stack pointer in *from and goes on where `to` was saved. Rounding modes are shared.
extern "C" void tilewright_emu_switch(void** from, void* to);

#ifdef TILEWRIGHT_EMU_DEFINE_SWITCH
__asm__(
    ".pushsection .text\n"
    ".p2align 4\n"
    ".globl tilewright_emu_switch\n"
    ".hidden tilewright_emu_switch\n"
    ".type tilewright_emu_switch,@function\n"
    "tilewright_emu_switch:\n"
    "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
    "  mov %rsp,(%rdi)\n"
    "  mov %rsi,%rsp\n"
    "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n"
    "  ret\n"
    ".size tilewright_emu_switch,.-tilewright_emu_switch\n"
    ".popsection\n");
#endif
