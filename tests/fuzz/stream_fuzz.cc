// Splits a tensor at arbitrary positions. The pieces must have the same result
// or error as the whole tensor, whether sent as a stream or as the pieces of a
// request.
#include <span>
#include <vector>

#include "core/engine.h"
#include "tests/conformance/run_everywhere.h"
#include "tests/fuzz/input.h"
#include "tests/support/compute.h"
#include "tests/support/oracle.h"

namespace topk::testing {
namespace {

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
  std::vector<int64_t> lengths(static_cast<size_t>(1 + input.Below(8)));
  for (int64_t& length : lengths) {
    length = input.Flag() ? 1 + input.Below(9) : input.Below(1 << 12);
  }
  lengths.front() += 1;                   // ensures progress
  const int64_t fault = input.Below(16);  // 1: too short, 2: too long
  Random random(input.Rest());
  v1::TopKRequest request = RandomRequest(random);
  std::string& data = *request.mutable_tensor()->mutable_data();
  if (fault == 1) data.resize(data.size() / 2);
  if (fault == 2) data.append(9, 'x');

  const Result<v1::TopKResponse> whole = Compute(engine, request);
  Require(whole.ok() || fault != 0, "the request is right");
  const auto cut = [&lengths]() -> NextPiece {
    return [&lengths, i = size_t{0}]() mutable {
      return static_cast<size_t>(lengths[i++ % lengths.size()]);
    };
  };
  RequireSame(Stream(engine, request, cut()), whole);
  std::vector<std::vector<std::byte>> pieces;
  (void)FeedInPieces(data, cut(), [&](std::span<const std::byte> piece) {
    pieces.emplace_back(piece.begin(), piece.end());
    return Status();
  });
  const std::vector<std::span<const std::byte>> spans(pieces.begin(),
                                                      pieces.end());
  RequireSame(Compute(engine, request, spans), whole);
}

}  // namespace
}  // namespace topk::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  topk::testing::Input input(data, size);
  topk::testing::Check(input);
  return 0;
}
