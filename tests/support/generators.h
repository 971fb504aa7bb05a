// Random requests, of every kind that the contract has.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "topk/v1/topk.pb.h"

namespace topk::testing {

using Random = std::mt19937_64;

/// Returns the seed of a random test: TOPK_TEST_SEED, or the given one. Prints
/// it, so that a failure can be had again.
uint64_t Seed(uint64_t usual);

/// Returns an integer from low to high, both included.
int64_t Pick(Random& random, int64_t low, int64_t high);

/// Returns `count` elements of one of several families: random bits, few
/// distinct values, constant, ascending, descending, and for floats mixes of
/// NaNs with payloads, infinities and both zeros.
std::string RandomData(Random& random, v1::DataType type, int64_t count);

/// Returns a request that breaks no rule, over all dialects, versions, types,
/// ranks, axes, orders, output options and (DirectML) strides.
v1::TopKRequest RandomRequest(Random& random);

/// Changes one thing of a request to a value that is wrong, or may be.
void Corrupt(Random& random, v1::TopKRequest& request);

}  // namespace topk::testing
