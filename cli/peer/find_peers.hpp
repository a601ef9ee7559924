// SPDX-License-Identifier: MIT
// Which peers this machine has, and the instructions that they may use.
#pragma once

#include <string_view>

#include "peer/peer.hpp"

namespace tilewright::cli {

// A Python with PyTorch, on the CPU or on GPU `gpu`, where it times operators on rows: $TILEWRIGHT_PYTHON alone when it is set, else build/venv of the source tree, then python3. The
// version comes from the package's metadata: torch is not imported. The error says what was tried.
Result<PeerProgram> find_torch();
Result<PeerProgram> find_torch_on_gpu(int gpu);
// The system's libopenblas, else the copy that the same Pythons' NumPy carries.
Result<PeerProgram> find_openblas();
// $TILEWRIGHT_ONEDNN, else the newest of: libdnnl of the system, libdnnl in those Pythons' environments.
Result<PeerProgram> find_onednn();

// A lowered CPU target holds for both sides: TILEWRIGHT_CPU_TARGET=x86-64-v4 compared with a oneDNN that uses AMX would say
// nothing. Sets the variables by which other libraries are held to a target, for the children of this process; what the
// user set stays.
void hold_peers_to_target(std::string_view target);

}  // namespace tilewright::cli
