// SPDX-License-Identifier: MIT
// What the terminal behind a stream can do.
#pragma once

#include <cstdio>
#include <string>

namespace tilewright::cli {

bool is_terminal(std::FILE* stream);
// A terminal that is not "dumb", and NO_COLOR is unset.
bool colours_wanted(std::FILE* stream);
// Columns of the terminal; 100 where there is none.
int terminal_width(std::FILE* stream);

enum class Tone { kPlain, kGood, kWarning, kBad, kFaint, kStrong };

// `text` in the tone's colour, or as it is.
std::string toned(const std::string& text, Tone tone, bool colours);

// Columns that UTF-8 text takes (every character one).
size_t display_width(const std::string& text);

}  // namespace tilewright::cli
