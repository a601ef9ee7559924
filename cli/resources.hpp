// SPDX-License-Identifier: MIT
// Files that come with the program (model shapes, the PyTorch peer): beside an installed program, or in the source tree
// that it was built in. No path is compiled in.
#pragma once

#include <string>
#include <vector>

#include "tilewright/status.hpp"

namespace tilewright::cli {

// The running program; "" when the system does not say.
std::string program_path();

// The source tree above the program's folder; "" when it is installed.
std::string source_root();

// `name` is the file's place in the source tree ("models/llama-3.1-8b.csv", "scripts/peer_torch.py"); installed files
// lie in share/tilewright, those of scripts/ without the folder. The error lists where it was looked for.
Result<std::string> find_resource(const std::string& name);

// Every models/*.csv.
std::vector<std::string> model_files();

}  // namespace tilewright::cli
