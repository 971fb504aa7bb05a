// topk_answers_total: which backend and kernel answers.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/registry.h>

#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <string_view>

namespace topk {

/// Counts answers by backend and kernel: the first pairs that appear have a
/// series each, all others share one, so their number is bounded whatever the
/// backends say. Thread-safe; a pair that is known takes no lock.
class AnswerCounters {
 public:
  /// The most pairs with their own series.
  static constexpr size_t kMax = 64;

  explicit AnswerCounters(prometheus::Registry& registry);

  /// Counts one answer.
  void Count(std::string_view backend, std::string_view kernel);

 private:
  struct Row {
    std::string backend;
    std::string kernel;
    prometheus::Counter* counter;
  };

  Row* Find(std::string_view backend, std::string_view kernel, size_t rows);

  prometheus::Family<prometheus::Counter>& family_;
  prometheus::Counter& others_;
  std::mutex mutex_;
  /// Rows below `known_` do not change any more.
  std::array<Row, kMax> rows_;
  std::atomic<size_t> known_ = 0;
};

}  // namespace topk
