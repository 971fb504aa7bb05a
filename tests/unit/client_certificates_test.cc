#include "server/security/client_certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <optional>
#include <thread>

#include "core/base/text.h"
#include "tests/support/authority.h"
#include "tests/support/test_server.h"

namespace topk {
namespace {

using testing::Authority;
using testing::Eventually;
using ::testing::HasSubstr;

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
