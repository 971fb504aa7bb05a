// Calls wrong servers by the C++ library: reads "name<TAB>target" lines, calls
// each by every method and prints a JSON object for each call:
// {"name", "method", "code", "reason", "message", "seconds"}, and a last one
// {"grown"}: by how many bytes the process grew at most.
//
// usage: topk_wrong_servers_probe SECONDS     the deadline of each call
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/topk_client.h"

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

v1::TopKRequest Request() {
  v1::TopKRequest request;
  request.mutable_spec()->set_dialect(v1::DIALECT_ONNX);
  request.mutable_spec()->set_version(11);
  request.mutable_onnx()->mutable_k()->set_value(2);
  request.mutable_tensor()->set_data_type(v1::DATA_TYPE_F32);
  request.mutable_tensor()->add_shape(2);
  request.mutable_tensor()->add_shape(5);
  request.set_request_id("a");
  return request;
}

Status StatusOf(const Result<v1::TopKResponse>& result) {
  return result.ok() ? Status() : result.status();
}

Status Call(const std::string& method, const Client& client) {
  const std::array<std::byte, 40> tensor{};
  v1::TopKRequest request = Request();
  if (method == "StreamTopK") {
    return StatusOf(client.StreamTopK(request, tensor));
  }
  request.mutable_tensor()->set_data(tensor.data(), tensor.size());
  if (method == "ComputeTopKMany") {
    return StatusOf(
        client.ComputeTopKMany(std::vector{request, request}).back());
  }
  return StatusOf(client.ComputeTopK(request));
}

nlohmann::json Measure(const std::string& name, const std::string& target,
                       const std::string& method,
                       std::chrono::milliseconds deadline) {
  const auto start = std::chrono::steady_clock::now();
  const Status status = Call(
      method,
      Client({.target = target, .deadline = deadline, .own_connection = true}));
  const std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - start;
  return {{"name", name},
          {"method", method},
          {"code", CodeName(status.code)},
          {"reason", status.reason},
          {"message", status.message},
          {"seconds", taken.count()}};
}

void Run(std::chrono::milliseconds deadline) {
  std::vector<std::array<std::string, 3>> calls;
  for (std::string line; std::getline(std::cin, line);) {
    const size_t tab = line.find('\t');
    for (const char* method :
         {"ComputeTopK", "StreamTopK", "ComputeTopKMany"}) {
      calls.push_back({line.substr(0, tab), line.substr(tab + 1), method});
    }
  }
  const int64_t before = StatusKibibytes("VmRSS:");
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (size_t n = next++; n < calls.size(); n = next++) {
        const auto& [name, target, method] = calls[n];
        const std::string line =
            Measure(name, target, method, deadline)
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
