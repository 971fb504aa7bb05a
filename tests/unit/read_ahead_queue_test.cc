// The order of reads and work on a stream.
#include "server/calls/read_ahead_queue.h"

#include <gtest/gtest.h>

#include <optional>

namespace topk {
namespace {

const Status kGone{Code::kUnavailable, "GONE", "", ""};

using Message = ReadAheadQueue::Message;

// A queue whose messages are not charged.
struct Queue : private InFlightLimiter::Slot, public ReadAheadQueue {
  Queue() : ReadAheadQueue(static_cast<Slot&>(*this)) {}
};

Queue::Next Receive(Queue& queue, int64_t bytes) {
  Message message{{}, bytes};
  return queue.Receive(message);
}

// Takes a message, and returns its bytes, or nullopt if there is none.
std::optional<int64_t> Take(Queue& queue) {
  std::optional<Message> taken;
  if (!queue.Take(taken, 0).consume || !taken.has_value()) return std::nullopt;
  return taken->bytes;
}

TEST(ReadAheadQueue, RequestsOneWorkerAtATime) {
  Queue queue;
  const Queue::Next first = Receive(queue, 100);
  EXPECT_TRUE(first.read);
  EXPECT_TRUE(first.consume);
  EXPECT_FALSE(Receive(queue, 50).consume);
  EXPECT_EQ(Take(queue), 100);
  EXPECT_EQ(Take(queue), 50);
  EXPECT_EQ(Take(queue), std::nullopt);
  EXPECT_TRUE(Receive(queue, 1).consume);
}

TEST(ReadAheadQueue, ReadsAheadUpToItsBounds) {
  Queue queue;
  EXPECT_TRUE(Receive(queue, kMaxReadAheadBytes / 2).read);
  EXPECT_FALSE(Receive(queue, kMaxReadAheadBytes / 2).read);
  std::optional<Message> taken;
  EXPECT_TRUE(queue.Take(taken, 0).read);

  Queue small;
  for (size_t i = 1; i < kMaxReadAheadMessages; ++i) {
    ASSERT_TRUE(Receive(small, 0).read);
  }
  EXPECT_FALSE(Receive(small, 0).read);
}

TEST(ReadAheadQueue, ReportsAnInterruptionBeforeWaitingMessages) {
  Queue queue;
  Receive(queue, 1);
  EXPECT_FALSE(queue.Interrupt(kGone, /*if_idle=*/true).consume);
  EXPECT_EQ(Take(queue), 1);
  EXPECT_TRUE(Receive(queue, 2).read);
  EXPECT_FALSE(queue.Interrupt(kGone).consume);
  const Queue::Next late = Receive(queue, 3);
  EXPECT_FALSE(late.read);
  EXPECT_FALSE(late.consume);
  std::optional<Message> taken;
  const Queue::Taken last = queue.Take(taken, 0);
  EXPECT_TRUE(last.end);
  EXPECT_EQ(last.status.reason, "GONE");
}

TEST(ReadAheadQueue, AnInterruptionMaySpareAStreamWithAConsumer) {
  Queue queue;
  Receive(queue, 1);
  for (const bool any : {true, false}) {
    EXPECT_FALSE(queue.Interrupt(kGone, /*if_idle=*/true).consume);
    EXPECT_EQ(Take(queue).has_value(), any);
  }
  EXPECT_TRUE(queue.Interrupt(kGone, /*if_idle=*/true).consume);
}

TEST(ReadAheadQueue, ChargesMessagesUntilTheNextOneIsTaken) {
  InFlightLimiter limiter(
      {.bytes = 100, .client_bytes = 100, .calls = 1, .client_calls = 1});
  InFlightLimiter::Slot slot;
  ASSERT_TRUE(limiter.Admit("client", slot).ok());
  ReadAheadQueue queue(slot);
  Message messages[] = {{{}, 1, 60}, {{}, 1, 30}, {{}, 1, 60}};
  std::optional<Message> taken;
  queue.Receive(messages[0]);
  queue.Take(taken, 0);
  queue.Receive(messages[1]);
  EXPECT_EQ(limiter.bytes(), 90);
  queue.Take(taken, 0);
  EXPECT_EQ(limiter.bytes(), 30);
  EXPECT_TRUE(queue.Reserve(40).ok());
  EXPECT_EQ(limiter.bytes(), 40);
  EXPECT_FALSE(queue.Take(taken, 0).consume);
  EXPECT_EQ(limiter.bytes(), 40);
  EXPECT_EQ(queue.Reserve(101).code, Code::kResourceExhausted);
  EXPECT_TRUE(queue.Reserve(70).ok());
  EXPECT_TRUE(queue.Receive(messages[2]).consume);
  EXPECT_EQ(limiter.bytes(), 70);
  Message too_large{{}, 1, 60};
  EXPECT_FALSE(queue.Receive(too_large).read);
  EXPECT_EQ(queue.Take(taken, 0).status.code, Code::kResourceExhausted);
}

TEST(ReadAheadQueue, StopsReadingAndWorkingWhenStopped) {
  Queue queue;
  Receive(queue, 1);
  EXPECT_EQ(queue.Stop().size(), 1);
  const Queue::Next next = Receive(queue, 2);
  EXPECT_FALSE(next.read);
  EXPECT_FALSE(next.consume);
  EXPECT_FALSE(queue.ReceiveEnd().consume);
  EXPECT_FALSE(queue.Interrupt({}).consume);
}

}  // namespace
}  // namespace topk
