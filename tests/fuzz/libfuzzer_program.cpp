// SPDX-License-Identifier: MIT
// libFuzzer's entry for the target that TILEWRIGHT_FUZZ_TARGET names.
#include <cstdint>
#include <fstream>
#include <string_view>

#include "fuzz/fuzz_target.hpp"

namespace {

const tilewright::fuzz::Target& target() {
  for (const tilewright::fuzz::Target& known : tilewright::fuzz::targets()) {
    if (std::string_view(known.name) == TILEWRIGHT_FUZZ_TARGET) return known;
  }
  throw std::logic_error("no target " TILEWRIGHT_FUZZ_TARGET);
}

}  // namespace

// `program --seeds FOLDER` writes the first inputs.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (*argc == 3 && std::string_view((*argv)[1]) == "--seeds") {
    int number = 0;
    for (const std::string& seed : target().seeds()) {
      std::ofstream((*argv)[2] + ("/seed" + std::to_string(number++)), std::ios::binary) << seed;
    }
    std::_Exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const tilewright::fuzz::Target& kTarget = target();
  kTarget.run({reinterpret_cast<const char*>(data), size});
  return 0;
}
