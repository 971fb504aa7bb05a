// The `topk` command, without its main().
#pragma once

namespace topk::cli {

/// Runs `topk` with the arguments of main() and returns the exit code.
int RunCommand(int argc, char** argv);

}  // namespace topk::cli
