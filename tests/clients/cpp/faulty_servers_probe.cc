// Calls faulty servers with the C++ client. Reads "name<TAB>method<TAB>target"
// lines and prints a JSON object for each: {"name", "method", "code", "reason",
// "message", "delay", "results", "seconds"}.
//
// usage: topk_faulty_servers_probe SECONDS
// SECONDS is the timeout of each call.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/client_calls.h"
#include "topk/client.h"

namespace topk {
namespace {

constexpr size_t kThreads = 24;

std::vector<Result<Response>> Call(const std::string& method,
                                   const Client& client) {
  static constexpr std::array<float, 10> kTensor{};
  std::vector<Request> requests;
  for (const char* id : {"0", "1", "2"}) {
    requests.push_back(Request::Onnx(kTensor, {2, 5}, 2));
    requests.back().message().set_request_id(id);
  }
  std::vector<Result<Response>> results;
  if (method == "ComputeTopKMany") {
    const Status end = client.ComputeTopKMany(
        requests,
        [&](size_t, auto result) { results.push_back(std::move(result)); });
    if (!end.ok()) results.push_back(end);
    return results;
  }
  results.push_back(
      client.ComputeTopK(requests[0], {.stream = method == "StreamTopK"}));
  return results;
}

nlohmann::json Measure(const std::string& name, const std::string& method,
                       const std::string& target,
                       std::chrono::milliseconds deadline) {
  const auto start = std::chrono::steady_clock::now();
  const auto results =
      Call(method, Client({.target = target,
                           .timeout = deadline,
                           .channel_arguments = testing::OwnConnection()}));
  const std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - start;
  const Status status =
      results.back().ok() ? Status() : results.back().status();
  return {{"name", name},
          {"method", method},
          {"code", CodeName(status.code)},
          {"reason", status.reason},
          {"message", status.message},
          {"delay", std::chrono::duration<double>(status.retry_after).count()},
          {"results", std::ranges::count_if(
                          results, [](const auto& one) { return one.ok(); })},
          {"seconds", taken.count()}};
}

void Run(std::chrono::milliseconds deadline) {
  std::vector<std::array<std::string, 3>> calls;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    for (std::string& word : calls.emplace_back()) {
      std::getline(words, word, '\t');
    }
  }
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (size_t n = next++; n < calls.size(); n = next++) {
        const auto& [name, method, target] = calls[n];
        const std::string line =
            Measure(name, method, target, deadline)
                .dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
        const std::lock_guard lock(mutex);
        std::cout << line << "\n";
      }
    });
  }
}

}  // namespace
}  // namespace topk

int main(int count, char** arguments) {
  if (count != 2) return 2;
  topk::Run(std::chrono::milliseconds(
      static_cast<int64_t>(1000 * std::strtod(arguments[1], nullptr))));
}
