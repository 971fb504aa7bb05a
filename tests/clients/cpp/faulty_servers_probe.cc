// Calls faulty servers with the C++ client. Reads lines of a method and a
// target, and prints a JSON object for each, in the same order: {"code",
// "reason", "message", "delay", "results", "seconds"}.
//
// usage: topk_faulty_servers_probe MILLISECONDS
// MILLISECONDS is the timeout of each call.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <future>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/client_calls.h"
#include "topk/client.h"

namespace topk {
namespace {

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

nlohmann::json Measure(const std::string& method, const std::string& target,
                       std::chrono::milliseconds timeout) {
  const auto start = std::chrono::steady_clock::now();
  const auto results =
      Call(method, Client({.target = target,
                           .timeout = timeout,
                           .channel_arguments = testing::OwnConnection()}));
  const std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - start;
  const Status status =
      results.back().ok() ? Status() : results.back().status();
  return {{"code", CodeName(status.code)},
          {"reason", status.reason},
          {"message", status.message},
          {"delay", std::chrono::duration<double>(status.retry_after).count()},
          {"results", std::ranges::count_if(
                          results, [](const auto& one) { return one.ok(); })},
          {"seconds", taken.count()}};
}

}  // namespace
}  // namespace topk

int main(int, char** arguments) {
  const std::chrono::milliseconds timeout(std::atoi(arguments[1]));
  std::vector<std::future<nlohmann::json>> calls;
  for (std::string method, target; std::cin >> method >> target;) {
    calls.push_back(
        std::async(std::launch::async, topk::Measure, method, target, timeout));
  }
  for (auto& call : calls) {
    std::cout << call.get().dump(-1, ' ', true,
                                 nlohmann::json::error_handler_t::replace)
              << "\n";
  }
}
