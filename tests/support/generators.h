// Random requests that cover the whole contract.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "topk/v1/topk.pb.h"

namespace topk::testing {

using Random = std::mt19937_64;

/// Returns the seed for a random test: TOPK_TEST_SEED if set, else `usual`.
/// Prints the seed so that a failure can be reproduced.
uint64_t Seed(uint64_t usual);

/// Returns an integer between `low` and `high`, inclusive.
int64_t Pick(Random& random, int64_t low, int64_t high);

/// Returns `count` elements from a random family: random bits, few distinct
/// values, constant, ascending or descending. Floats include NaNs with
/// payloads, infinities and both zeros.
std::string RandomData(Random& random, v1::DataType type, int64_t count);

/// Returns a random valid request. Covers all dialects, versions, types, ranks,
/// axes, orders, output options and DirectML strides.
v1::TopKRequest RandomRequest(Random& random);

/// Changes one part of a request to an invalid or unusual value.
void Corrupt(Random& random, v1::TopKRequest& request);

}  // namespace topk::testing
