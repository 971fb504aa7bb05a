#include "client/bench/bench.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <mutex>
#include <vector>

#include "client/bench/load.h"
#include "client/bench/mix.h"
#include "client/bench/report.h"
#include "client/bench/request_template.h"
#include "client/cli/errors.h"
#include "core/base/text.h"
#include "core/engine.h"

namespace topk::cli {
namespace {

// Whether SIGINT or SIGTERM has arrived. It is global so that a signal
// handler can set it.
std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void HandleInterrupts(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM}) {
    sigaction(signal, &action, nullptr);
  }
}

// Records the first SIGINT or SIGTERM. A second signal ends the process, even
// if the server is stalled.
void Interrupt(int) {
  HandleInterrupts(SIG_DFL);
  interrupted = true;
}

// Creates the request templates. On failure, prints the error and returns its
// exit status.
ExitCode MakeTemplates(const BenchFlags& flags, const BenchPath& path,
                       std::vector<RequestTemplate>& kinds) {
  std::vector<RequestSpec> specs = {flags.kind};
  if (!flags.mix.empty()) {
    std::ifstream file(flags.mix);
    if (!file) {
      return ReportInput(flags.mix,
                         {Code::kNotFound, "MIX", flags.mix,
                          StrCat("cannot be read: ", ErrnoText(errno))});
    }
    Result<std::vector<RequestSpec>> mix =
        ParseMix(file, flags.mix, flags.kind);
    if (!mix.ok()) return ReportUsage(mix.status());
    specs = *std::move(mix);
  }
  const Engine engine({});
  for (const RequestSpec& spec : specs) {
    Result<RequestTemplate> kind =
        MakeRequestTemplate(spec, path.in_one_message, flags.profile.batch,
                            flags.profile.seed + kinds.size());
    if (!kind.ok()) return ReportUsage(kind.status());
    if (flags.profile.verify > 0) {
      Status status = SetExpected(engine, *kind);
      if (!flags.mix.empty()) status.message += StrCat(" (", kind->name, ")");
      if (!status.ok()) return Report(status, nullptr);
    }
    kinds.push_back(*std::move(kind));
  }
  return kOk;
}

// Shows the progress of a load in a single line on stderr.
class Watch {
 public:
  ~Watch() {
    if (shown_ != start_) std::cerr << "\n";
  }

  void operator()(int64_t requests) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    const auto now = std::chrono::steady_clock::now();
    if (!lock || now - shown_ < std::chrono::milliseconds(100)) return;
    shown_ = now;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    // \033[K clears the rest of a longer previous line.
    std::cerr << "\r" << static_cast<int64_t>(seconds) << " s, " << requests
              << " requests, "
              << static_cast<int64_t>(static_cast<double>(requests) / seconds)
              << "/s\033[K" << std::flush;
  }

 private:
  const std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::chrono::steady_clock::time_point shown_ = start_;
};

}  // namespace

ExitCode Bench(const BenchFlags& flags) {
  const BenchPath& path =
      *std::ranges::find(BenchPaths(), flags.path, &BenchPath::name);
  std::vector<RequestTemplate> kinds;
  if (const ExitCode code = MakeTemplates(flags, path, kinds); code != kOk) {
    return code;
  }
  ClientOptions client = flags.client;
  client.own_connection = flags.connections > 1;
  std::vector<Client> clients;
  clients.reserve(static_cast<size_t>(flags.connections));
  for (int i = 0; i < flags.connections; ++i) clients.emplace_back(client);
  std::vector<Send> callers;
  for (size_t i = 0; i < static_cast<size_t>(flags.concurrency); ++i) {
    callers.push_back(path.make_caller(clients[i % clients.size()]));
  }

  const std::string& request_id = flags.kind.operation.request_id;
  for (size_t i = 0; i < clients.size(); ++i) {  // connect before the test
    const Answers answers = callers[i](kinds.front());
    if (!answers.front().ok() && !flags.keep_going) {
      return Report(answers.front().status(), &client, request_id);
    }
  }
  LoadOptions options;
  options.profile = flags.profile;
  options.keep_going = flags.keep_going;
  LoadResult result;
  {
    options.interrupted = [] { return interrupted.load(); };
    HandleInterrupts(Interrupt);
    Watch watch;
    if (isatty(STDERR_FILENO)) options.progress = std::ref(watch);
    result = RunLoad(options, kinds, callers);
    HandleInterrupts(SIG_DFL);
  }
  if (!result.wrong.empty()) {
    std::cerr << "topk: a response to " << result.wrong
              << " differs from the result computed locally\n";
    return kWrongAnswer;
  }
  // Print no statistics if no response was counted.
  const bool answered = std::ranges::any_of(
      result.stats, [](const LoadStats& stats) { return stats.answered > 0; });
  if (!answered && !result.error.ok()) {
    return Report(result.error, &client, request_id);
  }
  if (!answered) {
    std::cerr << "topk: interrupted before the first counted response\n";
    return kInterrupted;
  }
  const BenchReport report{flags, kinds, result};
  if (flags.json) {
    std::cout << ToJson(report).dump() << "\n";
  } else {
    PrintText(report, std::cout);
  }
  if (!result.error.ok() && !flags.keep_going) {
    return Report(result.error, &client, request_id);
  }
  if (result.interrupted) {
    std::cerr << "topk: interrupted: the report covers part of the load\n";
    return kInterrupted;
  }
  if (!result.kept_up) {
    std::cerr << "topk: the callers could not keep up with --rate: raise "
                 "--concurrency or lower --rate\n";
    return kRateMissed;
  }
  return kOk;
}

}  // namespace topk::cli
