#include "server/calls/group_call.h"

#include <tbb/parallel_for.h>

#include "core/base/happens_before.h"

namespace topk {

// Answers what has been received; one group at a time.
void GroupCall::AnswerGroup() {
  const Intake::Taken taken = Take(group_);
  if (taken.end) return Finish(Status{});
  if (!taken.any) return;
  since_ = taken.since;
  int64_t bytes = 0;
  for (grpc::ByteBuffer& request : group_) bytes += WorkBytes(request);
  Hold();
  service_.work().Run(bytes, [this, bytes] {
    Answer(bytes);
    Release();
    return bytes;
  });
}

void GroupCall::Answer(int64_t bytes) {
  if (const Status gone = CheckAlive(); !gone.ok()) return Finish(gone);
  // One by one where all of them take less than handing them out.
  answers_.resize(group_.size());
  const auto answer = [this](size_t i) {
    Tally tally;
    tally.begun = since_;
    tally.Arrive(since_);
    tally.Lap(Stage::kQueue);
    answers_[i] = Compute(group_[i], tally);
  };
  if (bytes > WorkQueue::kSmall) {
    tbb::parallel_for(size_t{0}, group_.size(), HandedOver(answer, this));
    AnnotateHappensAfter(this);
  } else {
    for (size_t i = 0; i < group_.size(); ++i) answer(i);
  }
  sent_ = 0;
  SendNext();
}

void GroupCall::SendNext() {
  grpc::WriteOptions options;
  if (sent_ + 1 < answers_.size()) options.set_buffer_hint();
  Write(answers_[sent_++], options);
}

void GroupCall::Sent(bool ok) {
  if (!ok) return Finish(Cancelled());
  if (sent_ < answers_.size()) return SendNext();
  visit().share.ReturnAll();
  AnswerGroup();
}

}  // namespace topk
