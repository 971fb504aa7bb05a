#include "client/bench/bench.h"

#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <iostream>
#include <vector>

#include "client/bench/driver.h"
#include "client/bench/load.h"
#include "client/bench/report.h"
#include "client/bench/request_template.h"
#include "client/channel.h"
#include "client/cli/commands.h"
#include "client/cli/interrupts.h"
#include "client/credentials.h"
#include "client/numpy/read_array.h"
#include "core/base/text.h"
#include "core/engine.h"

namespace topk::cli {
namespace {

// Whether SIGINT, SIGTERM or SIGHUP has arrived. It is global so that a signal
// handler can set it.
std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);

// Records the first signal. A signal more than a second later ends the process,
// even if the server is stalled. Earlier ones are ignored, because timeout(1)
// sends each signal twice.
void Interrupt(int signal) {
  using Clock = std::chrono::steady_clock;
  static std::atomic<Clock::time_point> first;
  static_assert(decltype(first)::is_always_lock_free);
  if (!interrupted) {
    first = Clock::now();
    interrupted = true;
  } else if (Clock::now() - first.load() > std::chrono::seconds(1)) {
    EndProcess(signal);
  }
}

// Creates the request template. On failure, prints the error and returns its
// exit status.
ExitCode MakeTemplate(const BenchFlags& flags, const BenchPath& path,
                      RequestTemplate& request) {
  RequestSpec spec = flags.request;
  if (!flags.input.empty()) {
    Result<NpyArray> input = ReadArray(flags.input, "");
    if (!input.ok()) return ReportInput(flags.input, input.status());
    spec.shape = input->shape;
    spec.dtype = InfoOf(input->dtype).name;
    spec.input = *std::move(input);
  }
  Result<RequestTemplate> made =
      MakeRequestTemplate(spec, path, flags.profile.seed);
  if (!made.ok()) return ReportUsage(made.status());
  request = *std::move(made);
  Status status;
  if (flags.profile.verify > 0) status = SetExpected(Engine({}), request);
  if (status.ok()) {
    status = SerializeMessages(path, flags.profile.batch, flags.concurrency,
                               request);
  }
  return status.ok() ? kOk : Report(status, nullptr);
}

// Reports that a file cannot be written, after an error of the system.
ExitCode ReportOutput(const std::string& path) {
  std::cerr << "topk: " << EscapeControls(path)
            << ": cannot be written: " << ErrnoText(errno) << "\n";
  return kFailed;
}

// Shows the progress of a load on stderr, and writes it to a file.
class Watch {
 public:
  Watch(bool shows, std::ostream& csv, Load& load)
      : shows_(shows), csv_(csv), load_(load) {
    csv_ << kCsvHeader << "\n";
  }

  // Shows the part of the load since the previous row, if that was a second ago
  // or if the load is over.
  void Update(Load::Time now, bool over = false) {
    if (!over && now < next_) return;
    const LoadStats stats = load_.TakeRecent();
    if (over && stats.answered() + stats.failed() == 0) return;
    using Seconds = std::chrono::duration<double>;
    const ProgressRow row{Seconds(now).count(), Seconds(now - shown_).count(),
                          stats};
    if (shows_) std::cerr << ToText(row) << "\n";
    csv_ << ToCsv(row) << std::endl;
    shown_ = now;
    next_ += std::chrono::seconds(1);
  }

 private:
  const bool shows_;
  std::ostream& csv_;
  Load& load_;
  Load::Time shown_{0};
  Load::Time next_ = std::chrono::seconds(1);
};

// Prints the limits in the flags that were exceeded, and returns whether there
// are any.
bool ReportExceededLimits(const BenchFlags& flags, const LoadStats& total) {
  const auto p99 = static_cast<double>(total.latency.Percentile(0.99));
  const bool slow = flags.max_p99 && p99 > *flags.max_p99 * 1e9;
  const bool failed = flags.max_errors && total.failed() > *flags.max_errors;
  if (slow) {
    std::cerr << "topk: --max-p99: the 99th percentile of the latency, "
              << TimeText(p99) << ", exceeds the limit of "
              << TimeText(*flags.max_p99 * 1e9) << "\n";
  }
  if (failed) {
    std::cerr << "topk: --max-errors: " << total.failed()
              << " requests failed, more than the limit of "
              << *flags.max_errors << "\n";
  }
  return slow || failed;
}

}  // namespace

ExitCode Bench(const BenchFlags& flags) {
  if (const ExitCode code = CheckClientFlags(flags.client); code != kOk) {
    return code;
  }
  // Debian's Abseil checks the order in which gRPC takes its locks. The checks
  // are 10 % of the instructions of a call.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // A first signal must not end the process while it has objects in shared
  // memory.
  HandleInterrupts(Interrupt);
  const BenchPath& path =
      *std::ranges::find(kBenchPaths, flags.path, &BenchPath::name);
  RequestTemplate request;
  if (const ExitCode code = MakeTemplate(flags, path, request); code != kOk) {
    return code;
  }
  ClientOptions client = flags.client;
  if (flags.connections > 1) {
    const auto own = std::make_shared<grpc::ChannelArguments>();
    own->SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    client.channel_arguments = own;
  }
  CallSettings settings{path, client, TokenFile(client.token_file)};
  std::ofstream csv;
  if (!flags.csv.empty()) {
    csv.open(flags.csv);
    if (!csv) return ReportOutput(flags.csv);
  }
  Channels channels;
  for (int i = 0; i < flags.connections; ++i) {  // connect before the test
    channels.push_back(Connect(client, MakeCredentials(client)));
    const Outcome first = CallOnce(settings, request, channels.back());
    if (!first.errors.empty() && !flags.keep_going) {
      return Report(first.errors.front(), &client);
    }
  }
  Load load(flags.profile, flags.keep_going);
  Watch watch(flags.progress, csv, load);
  const Load::Time end =
      Drive(settings, request, channels, flags.concurrency,
            flags.profile.rate > 0, load, [&](Load::Time now) {
              if (interrupted && !load.stopped()) {
                load.Interrupt(now);
                std::cerr << "topk: waiting for the calls in flight; interrupt "
                             "again to exit at once\n";
              }
              watch.Update(now);
            });
  watch.Update(end, /*over=*/true);
  HandleInterrupts(EndProcess);
  const LoadResult result = load.Result();
  const LoadStats& total = result.stats;
  if (result.wrong) {
    std::cerr << "topk: a response differs from the result computed locally\n";
    return kWrongAnswer;
  }
  // Print no statistics if no request was counted.
  if (total.answered() == 0 && !result.error.ok() && !flags.keep_going) {
    return Report(result.error, &client);
  }
  if (total.answered() == 0 && total.failed() == 0) {
    std::cerr << "topk: interrupted before the first counted response\n";
    return kInterrupted;
  }
  if (flags.json) {
    std::cout << ToJson(result).dump() << "\n";
  } else {
    PrintText(result, std::cout);
  }
  if (!flags.csv.empty() && !csv.flush()) return ReportOutput(flags.csv);
  if (!result.error.ok() && !flags.keep_going) {
    return Report(result.error, &client);
  }
  if (result.interrupted) {
    std::cerr << "topk: interrupted: the report covers part of the load\n";
    return kInterrupted;
  }
  const bool exceeded = ReportExceededLimits(flags, total);
  if (!result.kept_up) {
    std::cerr << "topk: the callers could not keep up with --rate: raise "
                 "--concurrency or lower --rate, unless the server stalled\n";
  }
  if (!exceeded && total.answered() == 0) {
    return Report(result.error, &client);
  }
  return exceeded ? kThresholdCrossed : !result.kept_up ? kRateMissed : kOk;
}

}  // namespace topk::cli
