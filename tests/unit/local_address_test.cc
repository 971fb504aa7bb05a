// Recognizes addresses that other machines cannot reach.
#include <gtest/gtest.h>

#include "core/security/target.h"

namespace topk {
namespace {

TEST(LocalAddress, AcceptsLoopbackAddressesOnly) {
  for (const char* address :
       {"localhost", "localhost:1", "127.0.0.1", "127.0.0.1:50051",
        "127.1.2.3:1", "::ffff:127.0.0.1", "::1", "[::1]", "[::1]:50051"}) {
    EXPECT_TRUE(IsLoopback(address)) << address;
  }
  for (const char* address :
       {"", "0.0.0.0:1", "[::]:1", "[::1]x", "[::10]:1", "::10", "10.0.0.1:1",
        "::ffff:10.0.0.1", "127.example.com:1", "127.0.0.1.example.com",
        "localhost.example.com", "example.com", "unix:/tmp/s"}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
  }
}

TEST(LocalAddress, AcceptsUnixSockets) {
  EXPECT_TRUE(IsUnixAddress("unix:/run/s"));
  EXPECT_TRUE(IsUnixAddress("unix-abstract:s"));
  EXPECT_FALSE(IsUnixAddress("localhost:1"));
  EXPECT_FALSE(IsUnixAddress("unix"));
}

}  // namespace
}  // namespace topk
