#include "server/telemetry/answer_counters.h"

#include <algorithm>

namespace topk {

AnswerCounters::AnswerCounters(prometheus::Registry& registry)
    : family_(
          prometheus::BuildCounter()
              .Name("topk_answers_total")
              .Help(
                  "Responses by the backend and the kernel that computed them")
              .Register(registry)),
      others_(family_.Add({{"backend", "other"}, {"kernel", "other"}})) {}

AnswerCounters::Row* AnswerCounters::Find(std::string_view backend,
                                          std::string_view kernel,
                                          size_t rows) {
  const auto end = rows_.begin() + static_cast<std::ptrdiff_t>(rows);
  const auto found = std::find_if(rows_.begin(), end, [&](const Row& row) {
    return row.kernel == kernel && row.backend == backend;
  });
  return found == end ? nullptr : &*found;
}

void AnswerCounters::Count(std::string_view backend, std::string_view kernel) {
  size_t known = known_.load(std::memory_order_acquire);
  const Row* row = Find(backend, kernel, known);
  if (row == nullptr && known < kMax) {
    const std::lock_guard lock(mutex_);
    known = known_.load(std::memory_order_relaxed);
    row = Find(backend, kernel, known);
    if (row == nullptr && known < kMax) {
      Row& added = rows_[known];
      added.backend = backend;
      added.kernel = kernel;
      added.counter =
          &family_.Add({{"backend", added.backend}, {"kernel", added.kernel}});
      known_.store(known + 1, std::memory_order_release);
      row = &added;
    }
  }
  (row == nullptr ? others_ : *row->counter).Increment();
}

}  // namespace topk
