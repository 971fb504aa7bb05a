#include "core/common/certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <optional>
#include <thread>

#include "core/base/text.h"
#include "server/security/client_certificates.h"
#include "tests/support/authority.h"
#include "tests/support/test_server.h"

namespace topk {
namespace {

using ::testing::AllOf;
using testing::Authority;
using testing::Eventually;
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

class ClientCertificatesTest : public ::testing::Test {
 protected:
  ClientCertificatesTest() { Write("ca", authority_.certificate()); }

  // Changes a file and reloads the files.
  void Write(const std::string& name, const std::string& text) {
    files_[name] = text;
    if (certificates_.has_value()) Load();
  }
  // If `lists` is empty, revocation is not checked.
  void Start(const std::string& lists = "") {
    lists_ = lists;
    certificates_.emplace(ClientCertificates::Files{"ca", lists}, *log_);
    Load();
  }
  void Load() {
    error_ = certificates_->Load(files_["ca"], files_[lists_]).message;
  }
  // Returns the error, or "" if the certificate is valid.
  std::string Check(const std::string& certificate,
                    const std::string& chain = "") const {
    const Status status = certificates_->Check(certificate, chain);
    if (status.ok()) return "";
    EXPECT_EQ(status.code, Code::kUnauthenticated);
    EXPECT_EQ(status.reason, "CERTIFICATE_NOT_VALID");
    return status.message;
  }

  const Authority authority_;
  const std::shared_ptr<testing::LogSink> sink_ =
      std::make_shared<testing::LogSink>();
  const std::shared_ptr<spdlog::logger> log_ =
      testing::MakeLoggerTo(sink_, "info", "text");
  std::map<std::string, std::string> files_;
  std::string lists_;
  std::optional<ClientCertificates> certificates_;
  std::string error_;
};

TEST_F(ClientCertificatesTest, AcceptsCertificatesOfItsAuthorities) {
  Start();
  EXPECT_EQ(Check(authority_.Issue().certificate), "");
  EXPECT_THAT(Check(Authority().Issue().certificate), HasSubstr("issuer"));
  EXPECT_EQ(Check(""),
            "the client's certificate is not valid: its PEM cannot be parsed");
  EXPECT_THAT(Check("text"), HasSubstr("cannot be parsed"));
  EXPECT_THAT(Check(authority_.Issue().certificate, "-----BEGIN CERTIFICATE"),
              HasSubstr("cannot be parsed"));
}

TEST_F(ClientCertificatesTest, ChecksTheDatesAgain) {
  Start();
  EXPECT_THAT(Check(authority_.Issue({"", "", 1, -60, -1}).certificate),
              HasSubstr("expired"));
  EXPECT_THAT(Check(authority_.Issue({"", "", 1, 60, 120}).certificate),
              HasSubstr("not yet valid"));
  const std::string later = authority_.Issue({"", "", 1, 2, 60}).certificate;
  EXPECT_TRUE(Eventually([&] { return Check(later).empty(); }));
}

TEST_F(ClientCertificatesTest, RejectsCertificatesOfARemovedAuthority) {
  Start();
  const std::string certificate = authority_.Issue().certificate;
  EXPECT_EQ(Check(certificate), "");
  Write("ca", Authority().certificate());
  EXPECT_NE(Check(certificate), "");
  Write("ca", "text");
  EXPECT_THAT(error_, HasSubstr("has no certificate"));
  EXPECT_NE(Check(certificate), "");
  Write("ca", authority_.certificate());
  EXPECT_EQ(Check(certificate), "");
}

TEST_F(ClientCertificatesTest, RemembersTheChainForResumedSessions) {
  Start();
  const auto between = authority_.Delegate();
  const std::string certificate = between->Issue().certificate;
  EXPECT_THAT(Check(certificate), HasSubstr("issuer"));
  EXPECT_EQ(Check(certificate, between->certificate()), "");
  // The first verdict is cached for a second.
  EXPECT_TRUE(Eventually([&] { return Check(certificate).empty(); }));
  // Only verified intermediates are stored.
  const auto stranger = Authority().Delegate();
  const std::string strange = stranger->Issue().certificate;
  EXPECT_NE(Check(strange, stranger->certificate()), "");
  EXPECT_NE(Check(strange), "");
}

// A valid certificate needs no other chain, so a client cannot fill the cache
// with chains. A chain without the issuer rejects no other chain.
TEST_F(ClientCertificatesTest, CachesEachChainOnlyOfRejectedCertificates) {
  Start();
  const auto between = authority_.Delegate();
  const std::string certificate = between->Issue().certificate;
  const std::string damaged = "-----BEGIN CERTIFICATE";
  EXPECT_THAT(Check(certificate, damaged), HasSubstr("cannot be parsed"));
  EXPECT_EQ(Check(certificate, between->certificate()), "");
  EXPECT_EQ(Check(certificate, damaged), "");
  EXPECT_THAT(Check(between->Issue().certificate, damaged),
              HasSubstr("cannot be parsed"));
}

// The result of a verification that a reload overtakes must not be cached.
TEST_F(ClientCertificatesTest, ChecksWhileFilesChange) {
  Start();
  const std::string certificate = authority_.Issue().certificate;
  const std::string other = Authority().certificate();
  std::string slow_chain;
  for (int i = 0; i < 50; ++i) slow_chain += authority_.certificate();
  std::atomic<int> begun = 0;
  std::atomic<int> ended = 0;
  std::atomic<bool> done = false;
  const std::jthread caller([&] {
    for (; !done; ++ended) {
      ++begun;
      (void)Check(certificate, slow_chain);
    }
  });
  const auto await = [](const std::atomic<int>& count) {
    const int before = count;
    while (count == before) std::this_thread::yield();
  };
  for (int i = 0; i < 20; ++i) {
    Write("ca", authority_.certificate());
    await(begun);
    Write("ca", other);
    await(ended);
    EXPECT_NE(Check(certificate), "");
  }
  done = true;
}

TEST_F(ClientCertificatesTest, RemembersTheChainUntilItsListArrives) {
  Write("lists", authority_.Revoke({}));
  Start("lists");
  const auto between = authority_.Delegate();
  const std::string certificate = between->Issue().certificate;
  EXPECT_THAT(Check(certificate, between->certificate()), HasSubstr("CRL"));
  Write("lists", authority_.Revoke({}) + between->Revoke({}));
  EXPECT_EQ(Check(certificate), "");
}

TEST_F(ClientCertificatesTest, NeedsNoListOfAnAuthoritysIssuer) {
  const auto between = authority_.Delegate();
  const std::string certificate = between->Issue({"", "", 5}).certificate;
  for (const std::string& authorities :
       {between->certificate(),
        StrCat(authority_.certificate(), between->certificate())}) {
    Write("ca", authorities);
    for (const std::string& lists :
         {between->Revoke({}),
          StrCat(authority_.Revoke({}), between->Revoke({})),
          StrCat(authority_.Revoke({}, -60), between->Revoke({}))}) {
      Write("lists", lists);
      Start("lists");
      EXPECT_EQ(Check(certificate), "");
      EXPECT_EQ(Check(certificate, between->certificate()), "");
    }
    Write("lists", StrCat(authority_.Revoke({}), between->Revoke({5})));
    Start("lists");
    EXPECT_THAT(Check(certificate), HasSubstr("revoked"));
  }
}

TEST_F(ClientCertificatesTest, NeedsCurrentLists) {
  const std::string certificate = authority_.Issue().certificate;
  Write("lists", authority_.Revoke({}, 2));
  Start("lists");
  EXPECT_TRUE(Eventually([&] { return !Check(certificate).empty(); }));
  EXPECT_THAT(Check(certificate), HasSubstr("CRL has expired"));
  Write("lists", authority_.Revoke({}));
  EXPECT_EQ(Check(certificate), "");
  Write("lists", authority_.Revoke({}, -60));
  EXPECT_THAT(sink_->Text(), HasSubstr("is out of date"));
}

TEST_F(ClientCertificatesTest, ReportsADamagedList) {
  const std::string list = authority_.Revoke({});
  Write("lists", list.substr(0, list.size() / 2));
  Start("lists");
  EXPECT_THAT(error_, HasSubstr("has a damaged revocation list (number 1)"));
}

}  // namespace
}  // namespace topk
