#include "tests/bench/service/paths.h"

#include <cmath>
#include <initializer_list>
#include <string>

#include "tests/bench/service/shared_memory.h"
#include "tests/bench/service/side.h"
#include "tests/bench/service/wire.h"
#include "topk/v1/topk.grpc.pb.h"

namespace topk::bench {
namespace {

constexpr std::initializer_list<int64_t> kAllSizes = {
    kKiB, 64 * kKiB, kMiB, 4 * kMiB, 64 * kMiB, 256 * kMiB};

// Calls measure(question, callers) for each row of a path.
template <class Measure>
void ForEachRow(const Run& run, std::initializer_list<int64_t> sizes,
                std::initializer_list<int> callers, const Measure& measure) {
  for (const int64_t bytes : sizes) {
    if (bytes > run.max_bytes) break;
    const QuestionPtr question = MakeQuestion(bytes);
    for (const int count : callers) {
      if (count > 1 && bytes > 4 * kMiB) continue;
      measure(question, count);
    }
  }
}

double GigabytesPerSecond(const Question& question, const Side& side) {
  return Rounded(side.per_second() * static_cast<double>(question.bytes()) /
                 1e9);
}

void AddSide(Row& row, const std::string& name, const Question& question,
             const Side& side) {
  row[name + "_gbps"] = GigabytesPerSecond(question, side);
  row[name + "_rps"] = Rounded(side.per_second());
  row[name + "_p50_us"] = Rounded(side.Percentile(0.5));
  row[name + "_p99_us"] = Rounded(side.Percentile(0.99));
}

Row Compare(const std::string& path, const Question& question, int callers,
            const Side& topkd, const std::string& other_name,
            const Side& other) {
  Row row = {{"path", path}, {"bytes", question.bytes()}, {"callers", callers}};
  AddSide(row, "topkd", question, topkd);
  AddSide(row, other_name, question, other);
  row["ratio"] = Rounded(topkd.per_second() / other.per_second());
  return row;
}

}  // namespace

double Rounded(double figure) { return std::round(figure * 1000) / 1000; }

void Print(const Row& row) { std::cout << row.dump() << std::endl; }

void MeasureUnary(const Run& run) {
  const auto measure = [&](const QuestionPtr& question, int callers) {
    Side topkd = TopkdUnary(run.servers.at("topkd"), question, callers);
    Side null = NullUnary(run.servers.at("null"), question, callers);
    TakeTurns({&topkd, &null}, run.seconds);
    Print(Compare("unary", *question, callers, topkd, "null", null));
  };
  ForEachRow(run, kAllSizes, {1, 8}, measure);
}

void MeasureOip(const Run& run) {
  const auto measure = [&](const QuestionPtr& question, int callers) {
    Side infer(callers, [&] {
      return RawInfer(Connect(run.servers.at("topkd")), question,
                      InferBytes(*question));
    });
    Side compute = TopkdUnary(run.servers.at("topkd"), question, callers);
    TakeTurns({&infer, &compute}, run.seconds);
    Print(Compare("oip", *question, callers, infer, "compute", compute));
  };
  ForEachRow(run, {kKiB, 64 * kKiB, kMiB, 16 * kMiB}, {1, 8}, measure);
}

void MeasureStream(const Run& run) {
  const auto measure = [&](const QuestionPtr& question, int callers) {
    Side topkd(callers, [&] {
      return RawStream(Connect(run.servers.at("topkd")), question);
    });
    Side null(callers, [&] {
      return StockStream(Connect(run.servers.at("null")), question);
    });
    TakeTurns({&topkd, &null}, run.seconds);
    Print(Compare("stream", *question, callers, topkd, "null", null));
  };
  ForEachRow(run, kAllSizes, {1, 8}, measure);
}

void MeasurePeers(const Run& run) {
  const auto measure = [&](const QuestionPtr& question, int callers) {
    Side topkd(callers, [&] {
      return RawStream(Connect(run.servers.at("topkd")), question);
    });
    Side tcp(callers, [&] { return TcpPeer(question); });
    Side flight(callers, [&] {
      return CommandPeer(run.flight_client + " " + run.servers.at("flight"),
                         question);
    });
    TakeTurns({&topkd, &tcp, &flight}, run.seconds);
    Row summary = {{"path", "peers"},
                   {"bytes", question->bytes()},
                   {"callers", callers},
                   {"topkd_gbps", GigabytesPerSecond(*question, topkd)}};
    const auto add = [&](const std::string& name, const Side& peer) {
      Print({{"path", name},
             {"bytes", question->bytes()},
             {"callers", callers},
             {"gbps", GigabytesPerSecond(*question, peer)}});
      summary[name + "_ratio"] =
          Rounded(topkd.per_second() / peer.per_second());
    };
    add("tcp", tcp);
    add("flight", flight);
    Print(summary);
  };
  ForEachRow(run, {256 * kMiB}, {1}, measure);
}

void MeasureMany(const Run& run) {
  const auto measure = [&](const QuestionPtr& question, int callers) {
    Side topkd(callers, [&] {
      return RawMany(Connect(run.servers.at("topkd")), question);
    });
    Side null = NullUnary(run.servers.at("null"), question, callers);
    TakeTurns({&topkd, &null}, run.seconds);
    Print(Compare("many", *question, callers, topkd, "null", null));
  };
  ForEachRow(run, {kKiB}, {1, 8}, measure);
}

void MeasureUnix(const Run& run) {
  const auto measure = [&](const QuestionPtr& question, int callers) {
    Side topkd = TopkdUnary(run.servers.at("topkd-unix"), question, callers);
    Side tcp = TopkdUnary(run.servers.at("topkd"), question, callers);
    Side null = NullUnary(run.servers.at("null-unix"), question, callers);
    TakeTurns({&topkd, &tcp, &null}, run.seconds);
    Row row = Compare("unix", *question, callers, topkd, "null", null);
    row["tcp_rps"] = Rounded(tcp.per_second());
    row["tcp_ratio"] = Rounded(topkd.per_second() / tcp.per_second());
    Print(row);
  };
  ForEachRow(run, {kKiB, 64 * kKiB, kMiB}, {1, 8}, measure);
}

void MeasureShared(const Run& run) {
  const auto measure = [&](const QuestionPtr& question, int callers) {
    const SharedMemory memory(run.shared_memory, question->data());
    v1::TopKRequest request = question->header;
    memory.Describe(*request.mutable_tensor()->mutable_shared_memory());
    Side topkd(callers, [&] {
      return RawUnary(Connect(run.servers.at("topkd")), question,
                      ToBytes(request));
    });
    Side null = NullUnary(run.servers.at("null"), question, callers);
    TakeTurns({&topkd, &null}, run.seconds);
    Print(Compare("shm", *question, callers, topkd, "null", null));
  };
  ForEachRow(run, {64 * kKiB, kMiB, 4 * kMiB, 64 * kMiB}, {1, 8}, measure);
}

void MeasurePython(const Run& run) {
  const auto measure = [&](const QuestionPtr& question, int callers) {
    Side topkd = TopkdUnary(run.servers.at("topkd"), question, callers);
    Side python(callers, [&] {
      return StockUnary(Connect(run.servers.at("python")), question,
                        Answers::kRight);
    });
    TakeTurns({&topkd, &python}, run.seconds);
    Print(Compare("python", *question, callers, topkd, "python", python));
  };
  ForEachRow(run, {kKiB, 64 * kKiB, kMiB, 4 * kMiB, 64 * kMiB}, {1, 8},
             measure);
}

}  // namespace topk::bench
