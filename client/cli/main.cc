// topk: TopK from the command line.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/errors.h"
#include "core/base/text.h"
#include "core/common/usage_text.h"
#include "core/engine.h"

namespace topk::cli {
namespace {

// Flushes stdout and returns `exit_code`. Returns kFailed instead of kOk if
// stdout cannot be written, e.g. because the disk is full.
int AtEnd(int exit_code) {
  if (std::cout.flush() || exit_code != kOk) return exit_code;
  std::cerr << "topk: cannot write to stdout\n";
  return kFailed;
}

// Makes all commands reject empty values, e.g. of unset shell variables, which
// would turn off TLS, and numbers as the values of switches.
void CheckValues(CLI::App& app) {
  const auto check = [](const std::string& value) -> std::string {
    return value.empty() ? "the value is empty" : "";
  };
  for (CLI::App* command : app.get_subcommands({})) {
    for (CLI::Option* option : command->get_options()) {
      if (option->get_expected_min() == 0) {  // a switch
        option->check(CLI::Validator(CheckSwitch, ""));
      } else if (option->get_name() != "--service") {  // "": the whole server
        option->check(CLI::Validator(check, ""));
      }
    }
  }
}

int Main(int argc, char** argv) {
  if (const Status s = CheckEnvironment(); !s.ok()) {
    std::cerr << "topk: " << s.field << ": " << s.message << "\n";
    return kUsage;
  }
  if (const std::string flag = EmptyFlag(argc, argv); !flag.empty()) {
    std::cerr << "topk: " << EscapeControls(flag) << ": the value is empty\n";
    return kUsage;
  }
  CLI::App app("Calls a TopK server, or computes locally", "topk");
  app.footer(kExitStatusText);
  app.set_version_flag("--version", "topk " TOPK_VERSION);
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return StrCat("topk: ", UsageText(error.what(), std::identity()),
                  "\nRun with --help for more information.\n");
  });
  ExitCode status = kOk;
  AddRun(app, status);
  AddMerge(app, status);
  AddHealth(app, status);
  AddInfo(app, status);
  AddBench(app, status);
  CheckValues(app);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 would report only that another argument is missing.
    const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
    if (error.get_exit_code() != 0 && !unknown.empty()) {
      std::cerr << "topk: unexpected argument " << Quote(unknown.front())
                << "\nRun with --help for more information.\n";
      return kUsage;
    }
    return AtEnd(app.exit(error) == 0 ? kOk : kUsage);
  }
  return AtEnd(status);
}

}  // namespace
}  // namespace topk::cli

int main(int argc, char** argv) {
  // Turn off gRPC's log, because the status of a failed call describes the
  // error. setenv is safe here because there is no other thread yet.
  setenv("GRPC_VERBOSITY", "NONE", 0);  // NOLINT(concurrency-mt-unsafe)
  try {
    return topk::cli::Main(argc, argv);
  } catch (const std::bad_alloc&) {
    std::cerr << "topk: not enough memory\n";
  } catch (const std::exception& error) {  // e.g. starting a thread failed
    std::cerr << "topk: " << error.what() << "\n";
  }
  return topk::cli::kFailed;
}
