#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/bench/bench.h"
#include "client/cli/commands.h"
#include "client/cli/number_flag.h"
#include "core/base/dtype.h"
#include "core/base/text.h"

namespace topk::cli {
namespace {

constexpr int kOpenLoopCallers = 64;
constexpr int64_t kBatch = 16;
constexpr double kDaySeconds = 86400;

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
                    .add_option("--shape", flags.request.shape,
                                "Shape of the tensors, e.g. 8,1000")
                    ->delimiter(',')
                    ->transform(Whole())
                    ->capture_default_str();
  std::vector<std::string> types;
  for (const DTypeInfo& row : kDTypes) types.emplace_back(row.name);
  auto* dtype = command
                    .add_option("--dtype", flags.request.dtype,
                                "Element type of the tensors")
                    ->check(CLI::IsMember(types))
                    ->capture_default_str();
  AddOperatorFlags(command, flags.request.operation);
  command
      .add_option("--input", flags.input,
                  "A file with the tensor to send in each request, instead of "
                  "random tensors: the formats of topk run, but one array, "
                  "and text without a header")
      ->type_name("FILE")
      ->excludes(shape)
      ->excludes(dtype);
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
                   "including the warm-up, on stderr");
  command
      .add_option("--csv", flags.csv,
                  "Write the rows of --progress to this file, as CSV")
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
