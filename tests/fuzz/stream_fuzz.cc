// Splits a tensor at arbitrary positions. Sent as a stream, as the pieces of a
// request, or to a fold of any backend, it must have the same result or error
// as the whole tensor.
#include <span>
#include <vector>

#include "core/engine.h"
#include "tests/conformance/run_everywhere.h"
#include "tests/fuzz/input.h"
#include "tests/support/compute.h"
#include "tests/support/oracle.h"

namespace topk::testing {
namespace {

using Pieces = std::vector<std::vector<std::byte>>;

// Copies each piece, so that AddressSanitizer detects reads past its end.
Pieces CutUp(const std::string& data, const std::vector<int64_t>& lengths) {
  Pieces pieces;
  auto rest = std::as_bytes(std::span(data));
  for (size_t i = 0; !rest.empty(); ++i) {
    const auto size =
        std::min(rest.size(), static_cast<size_t>(lengths[i % lengths.size()]));
    pieces.emplace_back(rest.begin(), rest.begin() + size);
    rest = rest.subspan(size);
  }
  return pieces;
}

Result<v1::TopKResponse> Streamed(const Engine& engine,
                                  const v1::TopKRequest& request,
                                  const Pieces& pieces) {
  v1::TopKRequest header = request;
  header.mutable_tensor()->clear_source();
  Result<TensorStream> stream = StartStream(engine, header);
  if (!stream.ok()) return stream.status();
  for (const auto& piece : pieces) {
    if (Status s = stream->Feed(piece); !s.ok()) return s;
  }
  return stream->Finish();
}

Result<v1::TopKResponse> Folded(const Backend& backend, const Plan& plan,
                                const Pieces& pieces) {
  v1::TopKResponse response;
  const Outputs outputs = PrepareOutputs(plan, response);
  const auto prepared = *backend.Prepare(plan);
  const std::unique_ptr<Fold> fold = *prepared->StartFold(outputs, nullptr);
  for (const auto& piece : pieces) fold->Feed(piece);
  fold->Finish();
  return response;
}

void RequireSame(const Result<v1::TopKResponse>& cut,
                 const Result<v1::TopKResponse>& whole) {
  Require(cut.ok() == whole.ok(), "cut and whole are judged alike");
  if (whole.ok()) {
    Require(Comparable(*cut) == Comparable(*whole),
            "cut and whole have the same answer");
  } else {
    Require(cut.status().reason == whole.status().reason &&
                cut.status().field == whole.status().field,
            "cut and whole have the same error");
  }
}

void Check(Input& input) {
  static const Engine engine({2, {}});
  static const auto backends = AllBackends(2);
  const auto number = input.Below(static_cast<int64_t>(backends.size()));
  const Backend& backend = *backends[static_cast<size_t>(number)];
  std::vector<int64_t> lengths(static_cast<size_t>(1 + input.Below(8)));
  for (int64_t& length : lengths) {
    length = input.Flag() ? 1 + input.Below(9) : input.Below(1 << 12);
  }
  lengths.front() += 1;                   // ensures progress
  const int64_t fault = input.Below(16);  // 1: too short, 2: too long
  Random random(input.Rest());
  v1::TopKRequest request = RandomRequest(random);
  request.clear_request_id();  // folds set none
  std::string& data = *request.mutable_tensor()->mutable_data();
  if (fault == 1) data.resize(data.size() / 2);
  if (fault == 2) data.append(9, 'x');

  const Result<v1::TopKResponse> whole = Compute(engine, request);
  Require(whole.ok() || fault != 0, "the request is right");
  const Pieces pieces = CutUp(data, lengths);
  RequireSame(Streamed(engine, request, pieces), whole);
  const std::vector<std::span<const std::byte>> spans(pieces.begin(),
                                                      pieces.end());
  RequireSame(Compute(engine, request, spans), whole);
  const Result<Plan> plan = Lower(request, Limits());
  if (plan.ok() && plan->input.packed && backend.Prepare(*plan).ok() &&
      plan->input.bytes == static_cast<int64_t>(data.size())) {
    RequireSame(Folded(backend, *plan, pieces), whole);
  }
}

}  // namespace
}  // namespace topk::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  topk::testing::Input input(data, size);
  topk::testing::Check(input);
  return 0;
}
