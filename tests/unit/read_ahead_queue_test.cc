// The order of reads and work on a stream.
#include "server/calls/read_ahead_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace topk {
namespace {

using ::testing::ElementsAre;

const Status kGone{Code::kUnavailable, "GONE", "", ""};

struct Message {
  int id;
  int64_t bytes;
  int64_t held_bytes = 0;
  bool operator==(int other) const { return id == other; }
};

// A queue whose messages are not charged.
struct Queue : private InFlightLimiter::Slot, public ReadAheadQueue<Message> {
  Queue() : ReadAheadQueue(static_cast<Slot&>(*this)) {}
};

Queue::Next Receive(Queue& queue, int id, int64_t bytes) {
  Message message{id, bytes};
  return queue.Receive(message);
}

TEST(ReadAheadQueue, RequestsOneWorkerAtATime) {
  Queue queue;
  const Queue::Next first = Receive(queue, 10, 100);
  EXPECT_TRUE(first.read);
  EXPECT_TRUE(first.consume);
  EXPECT_FALSE(Receive(queue, 5, 50).consume);
  std::vector<Message> taken;
  const Queue::Taken all = queue.Take(taken);
  EXPECT_TRUE(all.consume);
  EXPECT_THAT(taken, ElementsAre(10, 5));
  EXPECT_FALSE(queue.Take(taken).consume);
  EXPECT_TRUE(Receive(queue, 1, 1).consume);
}

TEST(ReadAheadQueue, ReadsAheadUpToItsBounds) {
  Queue queue;
  EXPECT_TRUE(Receive(queue, 1, kMaxReadAheadBytes / 2).read);
  EXPECT_FALSE(Receive(queue, 2, kMaxReadAheadBytes / 2).read);
  std::vector<Message> taken;
  const Queue::Taken all = queue.Take(taken);
  EXPECT_TRUE(all.read);

  Queue small;
  for (size_t i = 1; i < Queue::kMaxMessages; ++i) {
    ASSERT_TRUE(Receive(small, 0, 0).read);
  }
  EXPECT_FALSE(Receive(small, 0, 0).read);
}

TEST(ReadAheadQueue, ReportsAnInterruptionAfterAllMessages) {
  Queue queue;
  Receive(queue, 1, 1);
  EXPECT_FALSE(queue.Interrupt(kGone, /*if_idle=*/true).consume);
  Receive(queue, 1, 1);
  EXPECT_FALSE(queue.Interrupt(kGone).consume);
  const Queue::Next late = Receive(queue, 2, 1);
  EXPECT_FALSE(late.read);
  EXPECT_FALSE(late.consume);
  std::vector<Message> taken;
  EXPECT_FALSE(queue.Take(taken).end);
  EXPECT_THAT(taken, ElementsAre(1, 1));
  const Queue::Taken last = queue.Take(taken);
  EXPECT_TRUE(last.end);
  EXPECT_EQ(last.status.reason, "GONE");
}

TEST(ReadAheadQueue, AnInterruptionMaySpareAStreamWithAConsumer) {
  Queue queue;
  Receive(queue, 1, 1);
  std::vector<Message> taken;
  for (const bool any : {true, false}) {
    EXPECT_FALSE(queue.Interrupt(kGone, /*if_idle=*/true).consume);
    EXPECT_EQ(queue.Take(taken).consume, any);
  }
  EXPECT_TRUE(queue.Interrupt(kGone, /*if_idle=*/true).consume);
}

TEST(ReadAheadQueue, ChargesMessagesUntilTheNextOneIsTaken) {
  InFlightLimiter limiter(
      {.bytes = 100, .client_bytes = 100, .calls = 1, .client_calls = 1});
  InFlightLimiter::Slot slot;
  ASSERT_TRUE(limiter.Admit("client", slot).ok());
  ReadAheadQueue<Message> queue(slot);
  Message messages[] = {{1, 1, 60}, {2, 1, 30}, {3, 1, 60}};
  std::optional<Message> taken;
  queue.Receive(messages[0]);
  queue.TakeOne(taken, 0);
  queue.Receive(messages[1]);
  EXPECT_EQ(limiter.bytes(), 90);
  queue.TakeOne(taken, 0);
  EXPECT_EQ(limiter.bytes(), 30);
  EXPECT_TRUE(queue.Reserve(40).ok());
  EXPECT_EQ(limiter.bytes(), 40);
  EXPECT_FALSE(queue.TakeOne(taken, 0).consume);
  EXPECT_EQ(limiter.bytes(), 40);
  EXPECT_EQ(queue.Reserve(101).code, Code::kResourceExhausted);
  EXPECT_TRUE(queue.Reserve(70).ok());
  EXPECT_TRUE(queue.Receive(messages[2]).consume);
  EXPECT_EQ(limiter.bytes(), 70);
  Message too_large{4, 1, 60};
  EXPECT_FALSE(queue.Receive(too_large).read);
  EXPECT_EQ(queue.TakeOne(taken, 0).status.code, Code::kResourceExhausted);
}

TEST(ReadAheadQueue, StopsReadingAndWorkingWhenStopped) {
  Queue queue;
  Receive(queue, 1, 1);
  EXPECT_EQ(queue.Stop().size(), 1);
  const Queue::Next next = Receive(queue, 2, 1);
  EXPECT_FALSE(next.read);
  EXPECT_FALSE(next.consume);
  EXPECT_FALSE(queue.ReceiveEnd().consume);
  EXPECT_FALSE(queue.Interrupt({}).consume);
}

}  // namespace
}  // namespace topk
