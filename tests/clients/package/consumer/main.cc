// Asks the server that is named for the two largest of four numbers, and prints
// where they are.
#include <topk/client/merge.h>
#include <topk/client/shared_memory.h>
#include <topk/client/topk_client.h>

#include <cstring>
#include <iostream>

int main(int argc, char** argv) {
  const float scores[] = {1, 9, 3, 7};
  topk::Client client({.target = argc > 1 ? argv[1] : "localhost:50051"});
  topk::v1::TopKRequest request;
  request.mutable_spec()->set_dialect(topk::v1::DIALECT_ONNX);
  request.mutable_spec()->set_version(11);
  request.mutable_onnx()->mutable_k()->set_value(2);
  request.mutable_tensor()->set_data_type(topk::v1::DATA_TYPE_F32);
  request.mutable_tensor()->add_shape(4);
  const auto answer =
      client.ComputeTopK(request, std::as_bytes(std::span(scores)));
  if (!answer.ok()) {
    std::cerr << answer.status().message << "\n";
    return 1;
  }
  const topk::PartialAnswer all = {.response = *answer, .k = 2};
  const auto merged = topk::Merge(std::span(&all, 1));
  if (!merged.ok()) {
    std::cerr << merged.status().message << "\n";
    return 1;
  }
  int64_t indices[2];
  std::memcpy(indices, merged->response.indices().data().data(),
              sizeof(indices));
  std::cout << indices[0] << " " << indices[1] << "\n";
  return topk::SharedMemory::Create("", sizeof(scores)).ok() ? 0 : 1;
}
