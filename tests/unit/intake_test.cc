// The order of reads and work on a stream.
#include "server/calls/intake.h"

#include <gtest/gtest.h>

#include <string>

namespace topk {
namespace {

grpc::ByteBuffer Message(size_t bytes) {
  const grpc::Slice slice(std::string(bytes, 'x'));
  return {&slice, 1};
}

TEST(Intake, AsksForOneWorkerAtATime) {
  Intake intake;
  grpc::ByteBuffer message = Message(10);
  const Intake::Next first = intake.Receive(true, message);
  EXPECT_TRUE(first.read);
  EXPECT_TRUE(first.work);
  EXPECT_EQ(first.bytes, 10);
  message = Message(5);
  EXPECT_FALSE(intake.Receive(true, message).work);
  std::vector<grpc::ByteBuffer> taken;
  EXPECT_TRUE(intake.Take(taken).any);
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].Length(), 10u);
  EXPECT_EQ(taken[1].Length(), 5u);
  EXPECT_FALSE(intake.Take(taken).any);
  message = Message(1);
  EXPECT_TRUE(intake.Receive(true, message).work);
}

TEST(Intake, ReadsAheadSoFarAndNoFurther) {
  Intake intake;
  const auto half = static_cast<size_t>(Intake::kMostBytes / 2);
  grpc::ByteBuffer message = Message(half);
  EXPECT_TRUE(intake.Receive(true, message).read);
  message = Message(half);
  EXPECT_FALSE(intake.Receive(true, message).read);
  std::vector<grpc::ByteBuffer> taken;
  const Intake::Taken all = intake.Take(taken);
  EXPECT_TRUE(all.read);
  EXPECT_EQ(all.bytes, Intake::kMostBytes);

  Intake small;
  for (size_t i = 1; i < Intake::kMostMessages; ++i) {
    message = Message(0);
    ASSERT_TRUE(small.Receive(true, message).read);
  }
  message = Message(0);
  EXPECT_FALSE(small.Receive(true, message).read);
}

TEST(Intake, TheEndComesAfterAllMessages) {
  Intake intake;
  grpc::ByteBuffer message = Message(1);
  intake.Receive(true, message);
  EXPECT_FALSE(intake.Receive(false, message).read);
  std::vector<grpc::ByteBuffer> taken;
  const Intake::Taken last = intake.Take(taken);
  EXPECT_TRUE(last.any);
  EXPECT_FALSE(last.end);
  EXPECT_FALSE(last.read);
  EXPECT_TRUE(intake.Take(taken).end);
}

TEST(Intake, NothingBeginsOnceItIsStopped) {
  Intake intake;
  grpc::ByteBuffer message = Message(1);
  intake.Receive(true, message);
  intake.Stop();
  message = Message(1);
  const Intake::Next next = intake.Receive(true, message);
  EXPECT_FALSE(next.read);
  EXPECT_FALSE(next.work);
}

}  // namespace
}  // namespace topk
