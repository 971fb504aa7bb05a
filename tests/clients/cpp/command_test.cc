// The command topk where things go wrong: wrong servers, full disks, flags that
// contradict each other.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "client/numpy/npy.h"
#include "core/base/text.h"
#include "tests/clients/cpp/fake_server.h"
#include "tests/clients/cpp/right_answer.h"
#include "tests/integration/subprocess.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

// The result of a run of the command.
struct Outcome {
  int status;
  std::string out;
  std::string error;
};

class Command : public ::testing::Test {
 protected:
  Command() {
    const float values[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    const int64_t labels[] = {0, 1, 2, 3, 4};
    Write("x.npy", DType::kF32, {2, 5}, values, sizeof(values));
    Write("none.npy", DType::kF32, {0, 5}, values, 0);
    Write("labels.npy", DType::kI64, {5}, labels, sizeof(labels));
  }

  // Runs "topk ARGUMENTS" by the shell, in the folder of the files.
  Outcome Topk(const std::string& arguments, const std::string& to = "out") {
    const std::string script =
        StrCat("cd ", folder_.File(""), " && ", TOPK_BINARY_DIR, "/bin/topk ",
               arguments, " >", to, " 2>error");
    Subprocess shell({"/bin/bash", "-c", script});
    const int status = shell.Wait();
    return {status, ReadFile(folder_.File("out")),
            ReadFile(folder_.File("error"))};
  }

  void Write(const char* name, DType dtype, std::vector<int64_t> shape,
             const void* data, size_t size) {
    ASSERT_TRUE(WriteNpy(folder_.File(name), dtype, shape,
                         {static_cast<const char*>(data), size})
                    .ok());
  }

  TemporaryFolder folder_;
};

TEST_F(Command, ReadsNothingBeyondAnInvalidResponse) {
  const std::pair<const char*, std::function<void(v1::TopKResponse&)>> wrong[] =
      {
          {"nothing", [](auto& a) { a.Clear(); }},
          {"no data", [](auto& a) { a.mutable_values()->clear_data(); }},
          {"huge shape",
           [](auto& a) { a.mutable_values()->set_shape(0, 1000000000); }},
          {"no shape", [](auto& a) { a.mutable_values()->clear_shape(); }},
          {"unknown type",
           [](auto& a) {
             a.mutable_values()->set_data_type(static_cast<v1::DataType>(77));
           }},
          {"great index",
           [](auto& a) {
             a.mutable_indices()->set_data(std::string(32, '\x7f'));
           }},
      };
  for (const auto& [name, spoil] : wrong) {
    v1::TopKResponse answer = RightAnswer();
    spoil(answer);
    const FakeServer server(
        {.compute = [&answer](auto&, auto&, v1::TopKResponse& response) {
          response = answer;
          return grpc::Status::OK;
        }});
    for (const char* how : {"", "--json", "--labels labels.npy", "--out d"}) {
      const Outcome outcome =
          Topk(StrCat("run x.npy --k 2 --target ", server.target(), " ", how));
      EXPECT_EQ(outcome.status, 1) << name << " " << how;
      EXPECT_EQ(outcome.out, "") << name << " " << how;
      EXPECT_NE(outcome.error.find("[BAD_ANSWER]"), std::string::npos)
          << name << " " << how << ": " << outcome.error;
    }
  }
}

TEST_F(Command, ReportsAServerThatIsNotServing) {
  FakeServer server({});
  server.SetServing(false);
  const Outcome outcome = Topk(StrCat(
      "health --service topk.v1.TopKService --target ", server.target()));
  EXPECT_EQ(outcome.status, 5) << outcome.error;
  EXPECT_EQ(outcome.out, "NOT_SERVING\n");
}

TEST_F(Command, HealthUsesNoProxy) {
  const FakeServer server({});
  Subprocess health(
      {StrCat(TOPK_BINARY_DIR, "/bin/topk"), "health", "--service",
       "topk.v1.TopKService", "--target", server.target()},
      {"http_proxy=http://127.0.0.1:1", "no_proxy=", "no_grpc_proxy="});
  EXPECT_EQ(health.Wait(), 0) << health.Output();
}

TEST_F(Command, BenchReportsAWrongResult) {
  const FakeServer server(
      {.compute = [](auto&, auto&, auto&) { return grpc::Status::OK; }});
  const Outcome outcome =
      Topk(StrCat("bench --shape 2,5 --k 2 --duration 60 --concurrency 3 "
                  "--target ",
                  server.target()));
  EXPECT_EQ(outcome.status, 6) << outcome.error;
  EXPECT_EQ(outcome.out, "");
}

TEST_F(Command, BenchCountsFailuresWithKeepGoing) {
  std::atomic<int> calls = 0;
  const FakeServer server({.compute = [&calls](auto&, auto&, auto&) {
    // The first one connects.
    return ++calls % 2 == 0
               ? grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "full")
               : grpc::Status::OK;
  }});
  const std::string bench = StrCat(
      "bench --k 2 --requests 10 --verify 0 --json --target ", server.target());
  Outcome outcome = Topk(bench);
  EXPECT_EQ(outcome.status, 4);
  EXPECT_NE(outcome.error.find("full"), std::string::npos) << outcome.error;
  calls = 0;
  outcome = Topk(StrCat(bench, " --keep-going"));
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_NE(outcome.out.find("\"errors\":{\"INVALID_ARGUMENT\":5}"),
            std::string::npos)
      << outcome.out;
}

TEST_F(Command, BenchReportsTheCallsBeforeTheFirstFailure) {
  std::atomic<int> calls = 0;
  const FakeServer server({.compute = [&calls](auto&, auto&, auto&) {
    return ++calls == 5
               ? grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "gone")
               : grpc::Status::OK;
  }});
  const Outcome outcome =
      Topk(StrCat("bench --k 2 --requests 10 --verify 0 --json --concurrency 1 "
                  "--target ",
                  server.target()));
  EXPECT_EQ(outcome.status, 4);
  EXPECT_NE(outcome.error.find("gone"), std::string::npos) << outcome.error;
  // The first call connects and is not counted.
  for (const char* part :
       {"\"requests\":3,", "\"errors\":{\"INVALID_ARGUMENT\":1}"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << outcome.out;
  }
}

TEST_F(Command, BenchOpensTheRequestedConnections) {
  for (const size_t connections : {1, 3}) {
    std::mutex mutex;
    std::set<std::string> peers;
    const FakeServer server(
        {.compute = [&](grpc::ServerContext& context, auto&, auto&) {
          const std::lock_guard lock(mutex);
          peers.insert(context.peer());
          return grpc::Status::OK;
        }});
    const Outcome outcome =
        Topk(StrCat("bench --k 2 --requests 30 --verify 0 --concurrency 6 "
                    "--connections ",
                    connections, " --target ", server.target()));
    EXPECT_EQ(outcome.status, 0) << outcome.error;
    EXPECT_EQ(peers.size(), connections);
  }
}

TEST_F(Command, BenchRejectsTensorsAboveTheMessageLimit) {
  for (const char* flags :
       {"--shape 2147483648", "--shape 300000000 --dtype f64",
        "--shape 99999999999,99999999999", "--shape 4,-1",
        "--shape 600000000 --path many --batch 1",
        "--shape 100000000 --path many --batch 100",
        "--shape 99999999999,99999999999 --path stream"}) {
    const Outcome outcome =
        Topk(StrCat("bench --k 2 --target 127.0.0.1:1 ", flags));
    EXPECT_EQ(outcome.status, 2) << flags << ": " << outcome.error;
    EXPECT_EQ(outcome.error.rfind("topk: --shape: ", 0), 0u) << outcome.error;
  }
}

TEST_F(Command, RejectsNumbersOutsideTheirRange) {
  for (const char* command :
       {"bench --k 2 --rate", "bench --k 2 --duration", "bench --k 2 --warmup",
        "bench --k 2 --verify", "bench --k 2 --deadline",
        "run x.npy --k 2 --local --deadline", "health --deadline",
        "info --deadline"}) {
    for (const char* value : {"nan", "-nan", "'NaN(1)'", "inf", "-inf", "1e400",
                              "-1", "-1e-300", "1e9", "0x1p3", "1s", "''"}) {
      const std::string arguments = StrCat(command, "=", value);
      const Outcome outcome = Topk(arguments);
      EXPECT_EQ(outcome.status, 2) << arguments << ": " << outcome.error;
      EXPECT_NE(outcome.error.find("--"), std::string::npos) << arguments;
    }
  }
  for (const char* flag : {"--rate", "--duration", "--deadline"}) {
    EXPECT_EQ(Topk(StrCat("bench --k 2 ", flag, " 1e-300")).status, 2) << flag;
  }
}

TEST_F(Command, ReportsAFullDisk) {
  for (const char* arguments :
       {"run x.npy --k 2 --local", "run x.npy --k 2 --local --json", "--help",
        "--version"}) {
    const Outcome outcome = Topk(arguments, "/dev/full");
    EXPECT_EQ(outcome.status, 1) << arguments;
    EXPECT_EQ(outcome.error, "topk: cannot write to stdout\n") << arguments;
  }
}

TEST_F(Command, ErrorsNameTheRequest) {
  const Outcome outcome = Topk("run x.npy --k 9 --local --request-id r-17");
  EXPECT_EQ(outcome.status, 4);
  EXPECT_NE(outcome.error.find("(request r-17)"), std::string::npos)
      << outcome.error;
}

TEST_F(Command, LabelsNeedTheTable) {
  for (const char* flags :
       {"--labels labels.npy --json", "--labels labels.npy --out d",
        "--slice-labels labels.npy --json"}) {
    EXPECT_EQ(Topk(StrCat("run x.npy --k 2 --local ", flags)).status, 2)
        << flags;
  }
}

TEST_F(Command, ReadsFilesPipesAndRedirections) {
  const Outcome file = Topk("run x.npy --k 2 --local");
  EXPECT_EQ(file.status, 0) << file.error;
  EXPECT_EQ(file.out, "[0, :]  4 @4  3 @3\n[1, :]  9 @4  8 @3\n");
  for (const char* arguments :
       {"run - --k 2 --local <x.npy", "run - --k 2 --local < <(cat x.npy)",
        "run <(cat x.npy) --k 2 --local"}) {
    EXPECT_EQ(Topk(arguments).out, file.out) << arguments;
  }
}

TEST_F(Command, ReportsWhyAFileCannotBeRead) {
  Outcome outcome = Topk("run no.npy --k 2 --local");
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(
      outcome.error,
      StrCat("topk: no.npy: cannot be read: No such file or directory\n"
             "hint: the file was searched in ",
             std::filesystem::canonical(folder_.File("")).string(), "\n"));
  outcome = Topk("run . --k 2 --local");
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(outcome.error, "topk: .: cannot be read: Is a directory\n");
  outcome = Topk("run /dev/null --k 2 --local");
  EXPECT_EQ(outcome.status, 3);
}

TEST_F(Command, ReportsAnEmptyResult) {
  const Outcome outcome = Topk("run none.npy --k 2 --local");
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_EQ(outcome.out, "no slices: the input has no elements\n");
}

TEST_F(Command, NamesUnknownCommandsAndFlags) {
  const Outcome outcome = Topk("rnu x.npy");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.error,
            "topk: no command \"rnu\"; topk --help lists them\n");
  EXPECT_EQ(Topk("run x.npy --dialct onnx").error,
            "topk: unknown flag \"--dialct\"; topk run --help lists the "
            "flags\n");
  EXPECT_EQ(Topk("--dialct onnx").error,
            "topk: unknown flag \"--dialct\"; topk --help lists the flags\n");
  EXPECT_EQ(Topk("rnu x.npy --k 2").error,
            "topk: no command \"rnu\"; topk --help lists them\n");
}

TEST_F(Command, SuggestsRunIfTheCommandIsMissing) {
  for (const char* arguments :
       {"x.npy --k 3", "x.npz", "--k 3 x.npy", "--k=3 x.npy", "X.NPY --k 3",
        "x.Npz", "- --k 3", "-"}) {
    const Outcome outcome = Topk(arguments);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_EQ(outcome.error,
              "topk: the command is missing; to use a file: topk run FILE\n");
  }
}

TEST_F(Command, NamesFlagsForInvalidOptionsOfTheLibrary) {
  EXPECT_EQ(Topk("health --target example.org:1 --token-file x.npy").error,
            "topk: --token-file: the token would go to \"example.org:1\" "
            "without TLS; use --tls, or --token-over-plaintext if the network "
            "is trusted\n");
  EXPECT_EQ(Topk("health --target 1").error.rfind("topk: --target: ", 0), 0);
}

TEST_F(Command, CompareReportsTheFirstDifference) {
  const FakeServer server(
      {.compute = [](auto&, auto&, auto&) { return grpc::Status::OK; }});
  for (const char* stream : {"off", "auto"}) {
    const Outcome outcome = Topk(StrCat("run x.npy --k 2 --compare --stream ",
                                        stream, " --target ", server.target()));
    EXPECT_EQ(outcome.status, 6) << outcome.error;
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.error.find("4 of 4 elements differ, first [0, :] number "
                                 "0: 0 @0, here 4 @4"),
              std::string::npos)
        << outcome.error;
  }
  for (const char* flags : {"--json", "--local", "--out d"}) {
    EXPECT_EQ(Topk(StrCat("run x.npy --k 2 --compare ", flags)).status, 2);
  }
}

TEST_F(Command, BenchEndsAtASignalWithAReport) {
  std::atomic<int> calls = 0;
  const FakeServer server({.compute = [&calls](auto&, auto&, auto&) {
    ++calls;
    return grpc::Status::OK;
  }});
  for (const int signal : {SIGINT, SIGTERM}) {
    for (const char* rate : {"", " --rate 40"}) {
      calls = 0;
      Subprocess bench(
          {"/bin/sh", "-c",
           StrCat("exec ", TOPK_BINARY_DIR,
                  "/bin/topk bench --k 2 --duration 600 --warmup 0 --verify 0 "
                  "--json --target ",
                  server.target(), rate)});
      EXPECT_TRUE(Eventually([&] { return calls >= 5; }));
      bench.Signal(signal);
      EXPECT_EQ(bench.Wait(), 130) << bench.Output();
      EXPECT_NE(bench.Output().find("\"interrupted\":true"), std::string::npos)
          << bench.Output();
      EXPECT_NE(bench.Output().find("topk: interrupted"), std::string::npos);
    }
  }
}

TEST_F(Command, SecondSignalEndsAWaitingBench) {
  std::atomic<int> calls = 0;
  std::atomic<bool> over = false;
  const FakeServer server({.compute = [&](auto&, auto&, auto&) {
    // The first one connects.
    if (++calls > 1) over.wait(false);
    return grpc::Status::OK;
  }});
  Subprocess bench({StrCat(TOPK_BINARY_DIR, "/bin/topk"), "bench", "--k", "2",
                    "--verify", "0", "--target", server.target()});
  EXPECT_TRUE(Eventually([&] { return calls >= 2; }));
  // Those that come while the first one is being taken count as one with it.
  bench.Signal(SIGINT);
  const std::string stat = StrCat("/proc/", bench.pid(), "/stat");
  EXPECT_TRUE(Eventually([&] {
    bench.Signal(SIGTERM);
    return ReadFile(stat).find(") Z") != std::string::npos;
  }));
  EXPECT_EQ(bench.Wait(), 128 + SIGTERM);
  over = true;
  over.notify_all();
}

TEST_F(Command, ReportsInvalidCertificatesAndTokens) {
  Outcome outcome = Topk("info --tls-ca nothing.pem");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.error,
            "topk: --tls-ca: cannot read nothing.pem: No such file or "
            "directory\n");
  Write("token", DType::kF32, {0}, nullptr, 0);
  outcome = Topk("bench --k 1 --target example.org:1 --token-file token");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.error.find("without TLS"), std::string::npos);
  // A local computation needs neither.
  EXPECT_EQ(Topk("run x.npy --k 1 --local --tls-ca nothing.pem").status, 0);
}

}  // namespace
}  // namespace topk::testing
