// SPDX-License-Identifier: MIT
// Which peers this machine has.
#pragma once

#include "peer/peer.hpp"

namespace tilewright::cli {

// A Python with PyTorch: $TILEWRIGHT_PYTHON alone when it is set, else build/venv of the source tree, then python3. The
// version comes from the package's metadata: torch is not imported. The error says what was tried.
Result<PeerProgram> find_torch();
// The system's libopenblas, else the copy that the same Pythons' NumPy carries.
Result<PeerProgram> find_openblas();
// $TILEWRIGHT_ONEDNN, else the newest of: libdnnl of the system, libdnnl in those Pythons' environments.
Result<PeerProgram> find_onednn();

}  // namespace tilewright::cli
