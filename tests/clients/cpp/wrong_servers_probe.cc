// Calls faulty servers with the C++ client. Reads "name<TAB>method<TAB>target"
// lines and prints a JSON object for each: {"name", "method", "code", "reason",
// "message", "delay", "results", "seconds"}. The last object is {"grown"}, the
// maximum growth of the process in bytes.
//
// usage: topk_wrong_servers_probe SECONDS
// SECONDS is the timeout of each call.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "topk/client.h"

namespace topk {
namespace {

constexpr size_t kThreads = 24;

int64_t StatusKibibytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::stoll(line.substr(name.size()));
  }
  return 0;
}

v1::TopKRequest Request(const std::string& id) {
  v1::TopKRequest request;
  request.mutable_spec()->set_dialect(v1::DIALECT_ONNX);
  request.mutable_spec()->set_version(11);
  request.mutable_onnx()->mutable_k()->set_value(2);
  request.mutable_tensor()->set_data_type(v1::DATA_TYPE_F32);
  request.mutable_tensor()->add_shape(2);
  request.mutable_tensor()->add_shape(5);
  request.set_request_id(id);
  return request;
}

std::vector<Result<v1::TopKResponse>> Call(const std::string& method,
                                           const Client& client) {
  const std::array<std::byte, 40> tensor{};
  if (method == "StreamTopK") return {client.StreamTopK(Request("0"), tensor)};
  std::vector<v1::TopKRequest> requests;
  for (const char* id : {"0", "1", "2"}) {
    requests.push_back(Request(id));
    requests.back().mutable_tensor()->set_data(tensor.data(), tensor.size());
  }
  if (method == "ComputeTopKMany") return client.ComputeTopKMany(requests);
  return {client.ComputeTopK(requests[0])};
}

nlohmann::json Measure(const std::string& name, const std::string& method,
                       const std::string& target,
                       std::chrono::milliseconds deadline) {
  const auto start = std::chrono::steady_clock::now();
  const auto results = Call(
      method,
      Client({.target = target, .timeout = deadline, .own_connection = true}));
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
  const int64_t before = StatusKibibytes("VmRSS:");
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
  threads.clear();
  std::cout << nlohmann::json{{"grown",
                               (StatusKibibytes("VmHWM:") - before) * 1024}}
                   .dump()
            << std::endl;
}

}  // namespace
}  // namespace topk

int main(int count, char** arguments) {
  if (count != 2) return 2;
  topk::Run(std::chrono::milliseconds(
      static_cast<int64_t>(1000 * std::strtod(arguments[1], nullptr))));
}
