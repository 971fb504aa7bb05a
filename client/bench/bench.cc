// topk bench: puts load on a server and verifies its responses.
#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/bench/driver.h"
#include "client/bench/load.h"
#include "client/bench/report.h"
#include "client/bench/request_template.h"
#include "client/cli/commands.h"
#include "client/cli/errors.h"
#include "client/cli/interrupts.h"
#include "client/cli/number_flag.h"
#include "client/cli/request.h"
#include "client/numpy/read_tensor.h"
#include "core/base/dtype.h"
#include "core/base/text.h"
#include "core/engine.h"
#include "topk/client.h"

namespace topk::cli {
namespace {

constexpr int kOpenLoopCallers = 64;
constexpr int64_t kBatch = 16;
constexpr double kDaySeconds = 86400;

// The flags of `topk bench`.
struct BenchFlags {
  // The shape and the type of random tensors.
  std::vector<int64_t> shape = {1, 1000};
  std::string dtype = "f32";
  InputFlags input;  // file = "": random tensors
  OperatorFlags operation;
  std::string path{kBenchPaths[0].name};
  LoadProfile profile;
  int concurrency = 1;
  int connections = 1;
  bool keep_going = false;
  // The limits of the 99th percentile of the latency, in seconds, and of the
  // number of failed requests.
  std::optional<double> max_p99;
  std::optional<int64_t> max_errors;
  bool progress = false;
  // The file for a row per second; "" = none.
  std::string csv;
  bool json = false;
  // Makes one attempt per call, so that the report counts all failures.
  ClientOptions client = {.retry = Retry{.attempts = 1}};
};

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
                      RequestTemplate& made) {
  const InputFlags& input = flags.input;
  const bool random = input.file.empty();
  Result<v1::Tensor> tensor =
      random ? RandomTensor(*FindDType(flags.dtype), flags.shape,
                            path.max_tensor_bytes(), flags.profile.seed)
             : ReadTensor(input.file, input.member, input.has_header);
  if (!tensor.ok()) {
    return random ? ReportUsage(tensor.status())
                  : ReportInput(input.file, tensor.status());
  }
  made.tensor = *std::move(tensor);
  if (std::ssize(made.tensor.data()) > path.max_tensor_bytes()) {
    std::cerr << "topk: --input: the tensor is too large for a message; use "
                 "--path stream\n";
    return kUsage;
  }
  Result<v1::TopKRequest> request = MakeRequest(flags.operation, made.tensor);
  if (!request.ok()) return ReportUsage(request.status());
  made.request = *std::move(request);
  if (flags.profile.verify > 0) {
    Result<v1::TopKResponse> expected = Engine({}).Compute(
        made.request, std::as_bytes(std::span(made.tensor.data())));
    if (!expected.ok()) return Report(expected.status());
    made.expected = *std::move(expected);
  }
  const Status status =
      SerializeMessages(path, flags.profile.batch, flags.concurrency, made);
  return status.ok() ? kOk : Report(status);
}

ExitCode ReportOutput(const std::string& path, const std::string& why) {
  std::cerr << "topk: " << EscapeControls(path)
            << ": cannot be written: " << why << "\n";
  return kFailed;
}

// Writes the progress of a load as CSV.
class Watch {
 public:
  Watch(const std::vector<std::ostream*>& outs, Load& load)
      : outs_(outs), load_(load) {}

  // Writes the part of the load since the previous row, if that was a second
  // ago or if the load is over. Omits a last part shorter than 0.1 s without
  // errors, whose rate would mean little.
  void Update(Load::Time now, bool over = false) {
    if (!over && now < next_) return;
    const LoadStats stats = load_.TakeRecent();
    const bool is_short = written_ > Load::Time(0) && stats.failed() == 0 &&
                          now - written_ < std::chrono::milliseconds(100);
    if (over && (is_short || stats.answered() + stats.failed() == 0)) return;
    using Seconds = std::chrono::duration<double>;
    const std::string row =
        CsvRow(Seconds(now).count(), Seconds(now - written_).count(), stats);
    for (std::ostream* out : outs_) *out << row << std::endl;
    written_ = now;
    next_ += std::chrono::seconds(1);
  }

 private:
  const std::vector<std::ostream*> outs_;
  Load& load_;
  Load::Time written_{0};
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

// Sends tensors repeatedly, at a fixed rate or in a closed loop, and prints
// the rate and latencies. Returns kWrongAnswer if the bytes of a response
// differ from those computed in this process, and kThresholdCrossed after the
// report if a limit is exceeded. SIGINT or SIGTERM stops the load test once
// the calls in flight have finished. The report is then partial, and the exit
// status is kInterrupted.
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
  std::ofstream csv;
  std::vector<std::ostream*> outs;
  if (flags.progress) outs.push_back(&std::cerr);
  if (!flags.csv.empty()) {
    csv.open(flags.csv);
    outs.push_back(&csv);
  }
  for (std::ostream* out : outs) *out << kCsvHeader << std::endl;
  if (!csv) return ReportOutput(flags.csv, ErrnoText(errno));
  Connections connections;
  for (int i = 0; i < flags.connections; ++i) {  // connect before the test
    Outcome first = CallOnce(connections.emplace_back(client), path, request);
    if (!first.errors.empty() && !flags.keep_going) {
      Status& error = first.errors.front();
      if (error.message.find("larger than max") != std::string::npos) {
        error.message += "; send large tensors with --path stream";
      }
      return Report(error);
    }
  }
  Load load(flags.profile, flags.keep_going);
  Watch watch(outs, load);
  const Load::Time end =
      Drive(connections, path, request, flags.concurrency,
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
    return Report(result.error);
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
  if (!csv) return ReportOutput(flags.csv, "a row is missing");
  if (!result.error.ok() && !flags.keep_going) {
    return Report(result.error);
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
    return Report(result.error);
  }
  return exceeded ? kThresholdCrossed : !result.kept_up ? kRateMissed : kOk;
}

// Sets derived defaults. Throws if flags contradict each other.
void Settle(const CLI::App& command, BenchFlags& flags) {
  const auto given = [&command](const char* name) {
    return command.get_option(name)->count() > 0;
  };
  const auto refuse = [](const char* flag, const std::string& why) {
    throw CLI::ValidationError(flag, why);
  };
  LoadProfile& profile = flags.profile;
  if (!given("--concurrency") && given("--rate")) {
    flags.concurrency = kOpenLoopCallers;
  }
  if (!given("--warmup") && given("--requests")) profile.warmup = 0;
  if (flags.connections > flags.concurrency) {
    refuse(
        "--connections",
        StrCat(flags.connections, " exceeds --concurrency ", flags.concurrency,
               "; each connection needs at least one caller"));
  }
  const bool batched =
      std::ranges::find(kBenchPaths, flags.path, &BenchPath::name)->batched();
  if (!batched && given("--batch")) {
    refuse("--batch",
           StrCat("--path ", flags.path,
                  " sends one request per call; --batch needs --path many"));
  }
  if (batched && !given("--batch")) profile.batch = kBatch;
  if (profile.requests % profile.batch != 0) {
    refuse("--requests",
           StrCat(profile.requests, " is not a multiple of --batch ",
                  profile.batch));
  }
  if (given("--max-errors")) flags.keep_going = true;
}

}  // namespace

void AddBench(CLI::App& app, ExitCode& status) {
  CLI::App& command = *app.add_subcommand(
      "bench", "Loads a server with random tensors and verifies the results");
  const auto owner = std::make_shared<BenchFlags>();
  BenchFlags& flags = *owner;
  LoadProfile& profile = flags.profile;
  auto* shape = command
                    .add_option("--shape", flags.shape,
                                "Shape of the tensors, e.g. 8,1000")
                    ->delimiter(',')
                    ->transform(Whole())
                    ->capture_default_str();
  std::vector<std::string> types;
  for (const DTypeInfo& row : kDTypes) types.emplace_back(row.name);
  auto* dtype =
      command.add_option("--dtype", flags.dtype, "Element type of the tensors")
          ->check(CLI::IsMember(types))
          ->capture_default_str();
  AddOperatorFlags(command, flags.operation);
  auto* input =
      command
          .add_option("--input", flags.input.file,
                      "A file with the tensor to send in each request, instead "
                      "of random tensors, in a format of topk run")
          ->type_name("FILE")
          ->excludes(shape)
          ->excludes(dtype);
  AddInputFlags(command, input, flags.input);
  std::vector<std::string> paths;
  for (const BenchPath& path : kBenchPaths) paths.emplace_back(path.name);
  command
      .add_option("--path", flags.path,
                  "How to send requests: each in one message (unary), each in "
                  "chunks (stream), several per call (many), or with the "
                  "tensors in shared memory (shm)")
      ->check(CLI::IsMember(paths))
      ->capture_default_str();
  command
      .add_option("--batch", profile.batch,
                  StrCat("With --path many: number of requests in each call "
                         "(default ",
                         kBatch, "). Latencies are those of whole calls"))
      ->check(CLI::Range(1, 1 << 16));
  command
      .add_option("--connections", flags.connections,
                  "Number of connections that the callers share")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      .add_option(
          "--concurrency", flags.concurrency,
          StrCat("Number of callers, each with one call in flight at a time; "
                 "default: 1, or ",
                 kOpenLoopCallers, " with --rate"))
      ->check(CLI::Range(1, 1024));
  auto* rate =
      command
          .add_option("--rate", profile.rate,
                      "Requests per second, on a schedule that does not wait "
                      "for responses; latency is measured from when a call "
                      "was due. By default, callers send a request as soon as "
                      "they have received the previous response")
          ->check(Number(0.1, 1e7));
  command
      .add_option_function<std::string>(
          "--arrivals",
          [&profile](const std::string& name) {
            profile.poisson = name == "poisson";
          },
          "Intervals between requests at --rate: constant (default), or "
          "random, as if from independent users (poisson)")
      ->check(CLI::IsMember({"constant", "poisson"}))
      ->needs(rate);
  auto* requests = command
                       .add_option("--requests", profile.requests,
                                   "Number of requests to measure")
                       ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  command
      .add_option("--duration", profile.seconds,
                  "Duration of the measurement, in seconds")
      ->check(Number(0.01, kDaySeconds))
      ->excludes(requests)
      ->capture_default_str();
  command
      .add_option("--warmup", profile.warmup,
                  "Duration of the load before the measurement, in seconds; "
                  "default: 1, or 0 with --requests")
      ->check(Number(0, kDaySeconds));
  command
      .add_option("--verify", profile.verify,
                  "Fraction of the calls whose responses are compared with "
                  "results computed locally")
      ->check(Number(0, 1))
      ->capture_default_str();
  command.add_flag(
      "--keep-going", flags.keep_going,
      "Continue after failed calls, and report how many failed. A wrong result "
      "always ends the run");
  command
      .add_option("--max-p99", flags.max_p99,
                  "Exit with status 8 if the 99th percentile of the latency "
                  "exceeds this duration, e.g. 5ms")
      ->transform(CLI::AsNumberWithUnit(
          std::map<std::string, double>{{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}},
          CLI::AsNumberWithUnit::DEFAULT, "s, ms or us"))
      ->check(Number(1e-6, kDaySeconds));
  command
      .add_option("--max-errors", flags.max_errors,
                  "Exit with status 8 if more requests fail. Implies "
                  "--keep-going")
      ->transform(Whole(0));
  command.add_flag("--progress", flags.progress,
                   "Print the requests, latencies and errors of each second, "
                   "including the warm-up, on stderr, as CSV. A last part "
                   "shorter than 0.1 s is left out");
  command
      .add_option("--csv", flags.csv,
                  "Write the rows of --progress to this file")
      ->type_name("FILE");
  command
      .add_option(
          "--seed", profile.seed,
          "Seed for the random choice of tensors, arrivals and calls to verify")
      ->transform(Whole(0))
      ->capture_default_str();
  command.add_flag("--json", flags.json, "Print JSON");
  AddClientFlags(command, flags.client);
  command.callback([&command, owner, &status] {
    Settle(command, *owner);
    status = Bench(*owner);
  });
}

}  // namespace topk::cli
