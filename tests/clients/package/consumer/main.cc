// Asks the given server for the two largest of four numbers, and prints their
// indices.
#include <topk/client.h>
#include <topk/merge.h>
#include <topk/shared_memory.h>

#include <array>
#include <iostream>

int main(int argc, char** argv) {
  const std::array<float, 4> scores = {1, 9, 3, 7};
  const topk::Client client({.target = argc > 1 ? argv[1] : "localhost:50051"});
  const auto answer = client.ComputeTopK(topk::Request::Onnx(scores, {4}, 2));
  if (!answer.ok()) {
    std::cerr << answer.status().message << "\n";
    return 1;
  }
  const topk::PartialResponse all = {.response = answer->message(), .k = 2};
  const auto merged = topk::Merge(std::span(&all, 1));
  if (!merged.ok()) {
    std::cerr << merged.status().message << "\n";
    return 1;
  }
  const topk::Response response(merged->response);
  std::cout << (*response.indices())[0] << " " << (*response.indices())[1]
            << "\n";
  return topk::SharedMemory::Create("", sizeof(scores)).ok() ? 0 : 1;
}
