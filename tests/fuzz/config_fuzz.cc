// The server's settings. The input has environment variables up to the first
// NUL, then arguments, one per line. Rejected input must have an error message.
// Accepted settings must be in range and survive a round trip through the
// environment.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "server/config/config.h"
#include "tests/fuzz/input.h"

namespace topk::testing {
namespace {

class Captured {
 public:
  explicit Captured(std::ostream& stream)
      : stream_(stream), usual_(stream.rdbuf(text_.rdbuf())) {}
  Captured(const Captured&) = delete;
  ~Captured() { stream_.rdbuf(usual_); }

  std::string text() const { return text_.str(); }

 private:
  std::ostream& stream_;
  std::ostringstream text_;
  std::streambuf* const usual_;
};

struct Reading {
  CommandLine line;
  std::string out;
  std::string err;
};

std::vector<std::string> LinesOf(std::string_view text) {
  std::vector<std::string> all;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  return all;
}

// Sets environment variables from NAME=VALUE lines, for a scope.
class Variables {
 public:
  explicit Variables(std::string_view lines) {
    for (const std::string& line : LinesOf(lines)) {
      const size_t equals = line.find('=');
      if (equals == line.npos || !line.starts_with("TOPKD_")) continue;
      names_.push_back(line.substr(0, equals));
      setenv(names_.back().c_str(), line.c_str() + equals + 1, 1);
    }
  }
  Variables(const Variables&) = delete;
  ~Variables() {
    for (const std::string& name : names_) unsetenv(name.c_str());
  }

 private:
  std::vector<std::string> names_;
};

Reading Read(std::string_view variables,
             const std::vector<std::string>& arguments) {
  const Variables set(variables);
  std::vector<const char*> argv = {"topkd"};
  for (const std::string& argument : arguments) {
    argv.push_back(argument.c_str());
  }
  const Captured out(std::cout);
  const Captured err(std::cerr);
  CommandLine line =
      ReadCommandLine(static_cast<int>(argv.size()), argv.data());
  return {std::move(line), out.text(), err.text()};
}

void CheckRanges(const ServerConfig& config) {
  const auto within = [](auto least, auto value, auto most) {
    Require(least <= value && value <= most, "a setting is in its range");
  };
  Require(!config.listen.empty(), "there is an address");
  within(0u, config.unix_socket_mode, 0777u);
  within(0, config.threads, 4096);
  within(1, config.instances, 256);
  within(0, config.pollers, 4096);
  within(int64_t{1024}, config.max_message_bytes, int64_t{INT32_MAX});
  within(int64_t{1}, config.max_elements, INT64_MAX);
  within(int64_t{1}, config.max_selected_elements, UINT32_MAX);
  within(int64_t{1}, config.max_output_bytes, ServerConfig().max_output_bytes);
  within(int64_t{0}, config.max_inflight_bytes, INT64_MAX);
  within(int64_t{0}, config.max_inflight_calls, INT64_MAX);
  within(int64_t{0}, config.max_client_inflight_bytes, INT64_MAX);
  within(int64_t{0}, config.max_client_inflight_calls, INT64_MAX);
  within(int64_t{0}, config.max_receive_memory, INT64_MAX);
  within(0.0, config.drain_delay_seconds, 3600.0);
  within(0.0, config.drain_timeout_seconds, 86400.0);
  within(0.0, config.access_log_sample, 1.0);
  within(0.0, config.slow_request_seconds, 86400.0);
  within(0.0, config.security.client_requests_per_second, 1e15);
  within(0.0, config.security.client_bytes_per_second, 1e15);
  for (const std::string& address : config.listen) {
    Require(!address.starts_with("unix://") &&
                !address.starts_with("unix-abstract:"),
            "a Unix socket's address is unix:path");
  }
  Require(config.shared_memory_prefix.starts_with('/'), "a prefix's slash");
}

void Check(std::string_view text) {
  const size_t end = std::min(text.find('\0'), text.size());
  const std::vector<std::string> arguments =
      LinesOf(text.substr(std::min(end + 1, text.size())));
  const Reading first = Read(text.substr(0, end), arguments);
  if (first.line.action == CommandLine::Action::kExit) {
    const bool ok = first.line.exit_code == 0;
    Require(ok ? !first.out.empty() : !first.err.empty(),
            "a refusal or a help has a text");
    return;
  }
  if (first.line.action == CommandLine::Action::kHashToken) return;
  CheckRanges(first.line.server);
  const Reading again = Read(first.line.settings, {});
  Require(again.line.action == CommandLine::Action::kServe,
          "settings can be read again: " + again.err + first.line.settings);
  Require(again.line.settings == first.line.settings,
          "settings read again are the same:\n" + first.line.settings +
              "read as\n" + again.line.settings);
}

}  // namespace
}  // namespace topk::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  topk::testing::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}
