#include "core/common/certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/authority.h"

namespace topk {
namespace {

using ::testing::AllOf;
using testing::Authority;
using ::testing::HasSubstr;
using testing::Identity;

std::string Check(const std::string& certificate, const std::string& key) {
  const auto info = CheckKeyPair({{"--tls-cert", "c.pem"}, certificate},
                                 {{"--tls-key", "k.pem"}, key});
  return info.ok() ? "" : info.status().message;
}

TEST(Certificates, DescribeAValidPair) {
  const Authority authority;
  const Identity good = authority.Issue({"topk.example", "", 0x7d2});
  const auto info =
      CheckKeyPair({{"", ""}, good.certificate}, {{"", ""}, good.key});
  ASSERT_TRUE(info.ok()) << info.status().message;
  EXPECT_EQ(info->subject, "CN=topk.example");
  EXPECT_EQ(info->serial, "07D2");
  EXPECT_LT(info->not_before, std::time(nullptr));
  EXPECT_GT(info->not_after, std::time(nullptr));
}

TEST(Certificates, AcceptChainsAndFilesWithBothParts) {
  const Authority authority;
  const Identity good = authority.Issue();
  EXPECT_EQ(Check(good.certificate + authority.certificate(), good.key), "");
  const std::string both = good.key + good.certificate;
  EXPECT_EQ(Check(both, both), "");
}

TEST(Certificates, ReportFaults) {
  const Authority authority;
  const Identity good = authority.Issue();
  const Identity other = authority.Issue();
  EXPECT_EQ(Check("", good.key),
            "--tls-cert: c.pem has no certificate in PEM form");
  EXPECT_EQ(Check(good.key, good.key),
            "--tls-cert: c.pem has no certificate in PEM form");
  EXPECT_EQ(Check(good.certificate, "text"),
            "--tls-key: k.pem has no private key in PEM form");
  EXPECT_EQ(Check(good.certificate, testing::EncryptedKey()),
            "--tls-key: k.pem is encrypted; a key without passphrase is "
            "needed");
  EXPECT_EQ(Check(good.certificate, other.key),
            "--tls-key: k.pem is not the key of the first certificate of "
            "--tls-cert c.pem");
  EXPECT_THAT(
      Check(good.certificate.substr(0, good.certificate.size() / 2), good.key),
      HasSubstr("--tls-cert: c.pem has a damaged certificate (number 1)"));
  std::string damaged = authority.certificate();
  damaged.replace(damaged.size() / 2, 4, "****");
  EXPECT_THAT(Check(good.certificate + damaged, good.key),
              HasSubstr("--tls-cert: c.pem has a damaged certificate"));
}

TEST(Certificates, RejectExpiredOnesButNotFutureOnes) {
  const Authority authority;
  const Identity old =
      authority.Issue({"old", "", 1, /*valid_from=*/-7200, /*valid_to=*/-3600});
  EXPECT_THAT(
      Check(old.certificate, old.key),
      AllOf(HasSubstr("--tls-cert: c.pem expired at 20"), HasSubstr("Z")));
  const Identity early = authority.Issue({"new", "", 1, 600, 3600});
  EXPECT_EQ(Check(early.certificate, early.key), "");
}

TEST(Certificates, BundlesHaveCompleteCertificatesOnly) {
  const Authority one;
  const Authority two;
  const auto check = [](const std::string& text) {
    const auto read = ReadCertificates({{"--tls-ca", "ca.pem"}, text});
    return read.ok() ? "" : read.status().message;
  };
  EXPECT_EQ(check(one.certificate()), "");
  EXPECT_EQ(check("text before\n" + one.certificate() + two.certificate()), "");
  EXPECT_EQ(check(""), "--tls-ca: ca.pem has no certificate in PEM form");
  EXPECT_THAT(check(one.certificate() + two.certificate().substr(0, 99)),
              HasSubstr("damaged certificate (number 2)"));
}

}  // namespace
}  // namespace topk
