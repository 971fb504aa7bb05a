// Sort key encoders for tests of every type.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "core/base/dtype.h"
#include "core/base/with_sort_key_encoder.h"
#include "core/plan/plan.h"

namespace topk::testing {

/// Calls fn(encoder, type) for every type and direction, until a fatal failure.
template <class Fn>
void ForEachEncoder(const Fn& fn) {
  for (const DTypeInfo& type : kDTypes) {
    for (const bool largest : {true, false}) {
      SCOPED_TRACE(std::string(type.name) +
                   (largest ? " largest" : " smallest"));
      WithSortKeyEncoder(
          Parameters{.dtype = type.type,
                     .direction =
                         largest ? Direction::kLargest : Direction::kSmallest},
          [&](const auto& encoder) { fn(encoder, type); });
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace topk::testing
