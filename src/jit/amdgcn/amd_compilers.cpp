// SPDX-License-Identifier: MIT
#include "jit/amdgcn/amd_compilers.hpp"

#include <fmt/format.h>

#include "core/environment.hpp"
#include "jit/amdgcn/comgr/comgr_compiler.hpp"

namespace tilewright {
namespace {

std::string rocm_folder() { return environment("ROCM_PATH").value_or("/opt/rocm"); }

// Never destroyed: background threads of other static objects may still compile.
struct AmdCompilers {
  const std::optional<std::string> named = environment("TILEWRIGHT_AMDCLANG");
  const std::optional<std::string> named_comgr = environment("TILEWRIGHT_COMGR");
  AmdgcnCompiler first{{named && !named->empty() ? *named : rocm_clang()}};
  ComgrCompiler comgr{comgr::library_names(rocm_folder())};
  AmdgcnCompiler plain{plain_clangs()};
  FirstCompiler all{order()};

  std::vector<Compiler*> order() {
    if (named && !named->empty()) return {&first};
    if (named_comgr && !named_comgr->empty()) return {&comgr};
    return {&first, &comgr, &plain};
  }
  static AmdCompilers& get() {
    static auto* const compilers = new AmdCompilers;
    return *compilers;
  }
};

}  // namespace

Compiler& FirstCompiler::chosen() const {
  std::call_once(chosen_once_, [this] {
    std::string reasons;
    for (Compiler* compiler : compilers_) {
      chosen_ = compiler;
      status_ = compiler->available();
      if (status_.ok()) return;
      reasons += (reasons.empty() ? "" : "; ") + status_.message();
    }
    status_ = Status(status_.code(), reasons);
  });
  return *chosen_;
}

Status FirstCompiler::available() const {
  chosen();
  return status_;
}

Result<std::string> FirstCompiler::compile(const CompileRequest& request, const std::string& folder,
                                           const std::atomic<bool>* stop) {
  if (Status status = available(); !status) return status;
  return chosen().compile(request, folder, stop);
}

std::string rocm_clang() { return rocm_folder() + "/llvm/bin/clang"; }

std::vector<std::string> plain_clangs() { return {"clang-23", "clang-22", "clang-21", "clang-20", "clang"}; }

Compiler& amd_compiler() { return AmdCompilers::get().all; }

AmdgcnCompiler& amdgcn_compiler() {
  AmdCompilers& compilers = AmdCompilers::get();
  const bool only = compilers.named && !compilers.named->empty();
  return only || compilers.first.available().ok() ? compilers.first : compilers.plain;
}

}  // namespace tilewright
