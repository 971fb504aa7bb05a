// The command topk without its main().
#pragma once

namespace topk::cli {

/// Runs the command `topk` with the arguments of main() and returns the
/// process's exit code.
int RunCommand(int argc, char** argv);

}  // namespace topk::cli
