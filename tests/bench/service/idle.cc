#include <atomic>
#include <chrono>
#include <future>
#include <random>
#include <thread>

#include "tests/bench/service/paths.h"
#include "tests/bench/service/side.h"

namespace topk::bench {
namespace {

constexpr int kCallers = 8;

// Each caller waits and calls once, again and again.
void CallNowAndThen(Side& side, bool quick) {
  const int calls = quick ? 2 : 13;  // 13 take 26 s or so, 39 at most
  const double least = quick ? 0.01 : 1;
  std::atomic<uint32_t> seed = 1;
  side.Run([&](Caller& caller, std::vector<double>& microseconds) {
    std::minstd_rand random(seed++);
    std::uniform_real_distribution<double> pause(least, 3 * least);
    double seconds = 0;
    for (int i = 0; i < calls; ++i) {
      std::this_thread::sleep_for(std::chrono::duration<double>(pause(random)));
      seconds += caller.Run(0, microseconds);
    }
    return seconds;
  });
}

void AddSide(Row& row, const std::string& name, const Side& side) {
  row[name + "_p50_us"] = Rounded(side.Percentile(0.5));
  row[name + "_p99_us"] = Rounded(side.Percentile(0.99));
  row[name + "_max_us"] = Rounded(side.Percentile(1));
}

}  // namespace

void MeasureIdle(const Run& run) {
  const QuestionPtr question = MakeQuestion(1 << 10);
  Side topkd = TopkdUnary(run.servers.at("topkd"), question, kCallers);
  Side null = NullUnary(run.servers.at("null"), question, kCallers);
  auto other =
      std::async(std::launch::async, [&] { CallNowAndThen(null, run.quick); });
  CallNowAndThen(topkd, run.quick);
  other.get();
  Row row = {
      {"path", "idle"}, {"bytes", question->bytes()}, {"callers", kCallers}};
  AddSide(row, "topkd", topkd);
  AddSide(row, "null", null);
  Print(row);
}

}  // namespace topk::bench
