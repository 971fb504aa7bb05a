#include "client/bench/bench.h"

#include <absl/synchronization/mutex.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <iostream>
#include <vector>

#include "client/bench/driver.h"
#include "client/bench/load.h"
#include "client/bench/mix.h"
#include "client/bench/report.h"
#include "client/bench/request_template.h"
#include "client/channel.h"
#include "client/cli/errors.h"
#include "client/cli/interrupts.h"
#include "client/credentials.h"
#include "client/numpy/npy.h"
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

// Sets the tensor to send, and the specs of the requests to send.
ExitCode ReadSpecs(const BenchFlags& flags, std::vector<RequestSpec>& specs) {
  specs = {flags.kind};
  if (!flags.input.empty()) {
    Result<NpyArray> input = ReadNpy(flags.input, {});
    if (!input.ok()) return ReportInput(flags.input, input.status());
    specs[0].shape = input->shape;
    specs[0].dtype = FindDType(static_cast<int>(input->dtype))->name;
    specs[0].origin = "--input";
    specs[0].input = *std::move(input);
  }
  if (flags.mix.empty()) return kOk;
  std::ifstream file(flags.mix);
  if (!file) {
    return ReportInput(flags.mix,
                       {Code::kNotFound, "MIX", flags.mix,
                        StrCat("cannot be read: ", ErrnoText(errno))});
  }
  Result<std::vector<RequestSpec>> mix = ParseMix(file, flags.mix, flags.kind);
  if (!mix.ok()) return ReportUsage(mix.status());
  specs = *std::move(mix);
  return kOk;
}

// Creates the request templates. On failure, prints the error and returns its
// exit status.
ExitCode MakeTemplates(const BenchFlags& flags, const BenchPath& path,
                       std::vector<RequestTemplate>& kinds) {
  std::vector<RequestSpec> specs;
  if (const ExitCode code = ReadSpecs(flags, specs); code != kOk) return code;
  const Engine engine({});
  for (const RequestSpec& spec : specs) {
    Result<RequestTemplate> kind =
        MakeRequestTemplate(spec, path, flags.profile.seed + kinds.size());
    if (!kind.ok()) return ReportUsage(kind.status());
    if (flags.profile.verify > 0) {
      Status status = SetExpected(engine, *kind);
      if (!flags.mix.empty()) status.message += StrCat(" (", kind->name, ")");
      if (!status.ok()) return Report(status, nullptr);
    }
    if (Status s = SerializeMessages(path, flags.profile.batch,
                                     flags.concurrency, *kind);
        !s.ok()) {
      return Report(s, nullptr);
    }
    kinds.push_back(*std::move(kind));
  }
  return kOk;
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
  Watch(const BenchFlags& flags, std::ostream& csv, Load& load)
      : lines_(flags.progress),
        line_(!flags.progress && isatty(STDERR_FILENO)),
        csv_(csv),
        load_(load) {
    csv_ << kCsvHeader << "\n";
  }
  ~Watch() {
    if (line_ && shown_.count() > 0) std::cerr << "\n";
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
    // \033[K clears the rest of a longer previous line.
    if (line_) std::cerr << "\r" << ToText(row) << "\033[K" << std::flush;
    if (lines_) std::cerr << ToText(row) << "\n";
    csv_ << ToCsv(row) << std::endl;
    shown_ = now;
    next_ += std::chrono::seconds(1);
  }

 private:
  const bool lines_;
  const bool line_;
  std::ostream& csv_;
  Load& load_;
  Load::Time shown_{0};
  Load::Time next_ = std::chrono::seconds(1);
};

}  // namespace

ExitCode Bench(const BenchFlags& flags) {
  // Debian's Abseil checks the order in which gRPC takes its locks. The checks
  // are 10 % of the instructions of a call.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // A first signal must not end the process while it has objects in shared
  // memory.
  HandleInterrupts(Interrupt);
  const BenchPath& path =
      *std::ranges::find(kBenchPaths, flags.path, &BenchPath::name);
  std::vector<RequestTemplate> kinds;
  if (const ExitCode code = MakeTemplates(flags, path, kinds); code != kOk) {
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
  const std::string& request_id = flags.kind.operation.request_id;
  Channels channels;
  for (int i = 0; i < flags.connections; ++i) {  // connect before the test
    channels.push_back(Connect(client, MakeCredentials(client)));
    const Outcome first = CallOnce(settings, kinds.front(), channels.back());
    if (!first.errors.empty() && !flags.keep_going) {
      return Report(first.errors.front(), &client, request_id);
    }
  }
  std::vector<double> weights;
  for (const RequestTemplate& kind : kinds) weights.push_back(kind.weight);
  Load load(flags.profile, weights, flags.keep_going);
  {
    Watch watch(flags, csv, load);
    const Load::Time end =
        Drive(settings, kinds, channels, flags.concurrency,
              flags.profile.rate > 0, load, [&](Load::Time now) {
                if (interrupted && !load.stopped()) {
                  load.Interrupt(now);
                  std::cerr << "topk: waiting for the calls in flight; "
                               "interrupt again to exit at once\n";
                }
                watch.Update(now);
              });
    watch.Update(end, /*over=*/true);
    HandleInterrupts(EndProcess);
  }
  const LoadResult result = load.Result();
  const LoadStats total = result.Total();
  if (result.wrong) {
    std::cerr << "topk: a response to " << kinds[*result.wrong].name
              << " differs from the result computed locally\n";
    return kWrongAnswer;
  }
  // Print no statistics if no request was counted.
  if (total.answered() == 0 && !result.error.ok() && !flags.keep_going) {
    return Report(result.error, &client, request_id);
  }
  if (total.answered() == 0 && total.failed() == 0) {
    std::cerr << "topk: interrupted before the first counted response\n";
    return kInterrupted;
  }
  const BenchReport report{flags, kinds, result};
  if (flags.json) {
    std::cout << ToJson(report).dump() << "\n";
  } else {
    PrintText(report, std::cout);
  }
  if (!flags.csv.empty() && !csv.flush()) return ReportOutput(flags.csv);
  if (!result.error.ok() && !flags.keep_going) {
    return Report(result.error, &client, request_id);
  }
  if (result.interrupted) {
    std::cerr << "topk: interrupted: the report covers part of the load\n";
    return kInterrupted;
  }
  const std::vector<std::string> exceeded = ExceededLimits(flags, total);
  for (const std::string& limit : exceeded) {
    std::cerr << "topk: " << limit << "\n";
  }
  if (!result.kept_up) {
    std::cerr << "topk: the callers could not keep up with --rate: raise "
                 "--concurrency or lower --rate, unless the server stalled\n";
  }
  if (exceeded.empty() && total.answered() == 0) {
    return Report(result.error, &client, request_id);
  }
  return !exceeded.empty() ? kThresholdCrossed
         : !result.kept_up ? kRateMissed
                           : kOk;
}

}  // namespace topk::cli
