#include "server/security/client_certificates.h"

#include <openssl/x509_vfy.h>

#include <algorithm>
#include <limits>

#include "core/base/text.h"

namespace topk {
namespace {

// When a cache is full, all its verdicts are dropped at once. Thousands of
// certificates of trusted authorities fit into the cache of valid certificates.
constexpr size_t kMaxAcceptedBytes = size_t{8} << 20;
constexpr size_t kMaxRejected = 4096;
constexpr size_t kMaxIntermediates = 64;
// How long a rejection is cached. Other verdicts are cached at least this long.
constexpr std::time_t kMinVerdictSeconds = 1;
constexpr unsigned long kCrlFlags =  // NOLINT: OpenSSL's type
    X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL;
constexpr std::time_t kNever = std::numeric_limits<std::time_t>::max();

using StoreContext =
    std::unique_ptr<X509_STORE_CTX, FreeWith<X509_STORE_CTX_free>>;
struct FreeStack {
  void operator()(STACK_OF(X509) * stack) const { sk_X509_free(stack); }
};

Status NotValid(const std::string& why) {
  return {Code::kUnauthenticated, "CERTIFICATE_NOT_VALID", "",
          StrCat("the client's certificate is not valid: ", why)};
}

// Accepts a trust anchor even if no valid revocation list covers it. To revoke
// a trust anchor, remove it from the file of --tls-client-ca.
int IgnoreAnchorRevocationErrors(int ok, X509_STORE_CTX* context) {
  if (ok == 1) return 1;
  const int anchor = sk_X509_num(X509_STORE_CTX_get0_chain(context)) - 1;
  if (X509_STORE_CTX_get_error_depth(context) != anchor) return 0;
  switch (X509_STORE_CTX_get_error(context)) {
    case X509_V_ERR_UNABLE_TO_GET_CRL:
    case X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER:
    case X509_V_ERR_CRL_SIGNATURE_FAILURE:
    case X509_V_ERR_CRL_HAS_EXPIRED:
    case X509_V_ERR_CRL_NOT_YET_VALID:
      X509_STORE_CTX_set_error(context, X509_V_OK);
      return 1;
    default:
      return 0;
  }
}

}  // namespace

Status ClientCertificates::Load(const std::string& authorities,
                                const std::string& revoked) {
  const auto trusted =
      ReadCertificates({{"--tls-client-ca", files_.authorities}, authorities});
  if (!trusted.ok()) return trusted.status();
  auto trust = std::make_shared<Trust>();
  trust->store.reset(X509_STORE_new());
  X509_STORE* const store = trust->store.get();
  // Accept intermediate authorities as trust anchors, as TLS handshakes do.
  X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN);
  for (const Certificate& authority : *trusted) {
    X509_STORE_add_cert(store, authority.get());
  }
  std::time_t until = kNever;
  if (!files_.revoked.empty()) {
    const auto lists =
        ReadRevocationLists({{"--tls-client-crl", files_.revoked}, revoked});
    if (!lists.ok()) return lists.status();
    for (const RevocationList& list : *lists) {
      X509_STORE_add_crl(store, list.get());
      const ASN1_TIME* next = X509_CRL_get0_nextUpdate(list.get());
      if (next != nullptr) until = std::min(until, ToTime(next));
    }
    log_.info("{} revocation lists of {} are in use{}", lists->size(),
              files_.revoked,
              until == kNever ? "" : StrCat(", until ", UtcText(until)));
    if (until <= std::time(nullptr)) {
      log_.warn(
          "a revocation list in {} is out of date: until the file is updated, "
          "all client certificates of the list's issuer are rejected",
          files_.revoked);
    }
  }
  trust->lists_until = until;
  const MutexLock lock(mutex_);
  trust_ = std::move(trust);
  accepted_.clear();
  accepted_bytes_ = 0;
  rejected_.clear();
  return {};
}

Status ClientCertificates::Check(std::string_view certificate,
                                 std::string_view chain) const {
  const std::time_t now = std::time(nullptr);
  {
    const MutexLock lock(mutex_);
    const auto accepted = accepted_.find(certificate);
    if (accepted != accepted_.end() && now < accepted->second) return {};
  }
  const TokenHash key = HashToken(StrCat(certificate, chain));
  std::shared_ptr<const Trust> trust;
  Certificates intermediates;
  {
    const MutexLock lock(mutex_);
    const auto rejected = rejected_.find(key);
    if (rejected != rejected_.end() && now < rejected->second.until) {
      return rejected->second.status;
    }
    trust = trust_;
    intermediates = intermediates_;
  }
  Verdict verdict = Verify(*trust, intermediates, certificate, chain);
  const MutexLock lock(mutex_);
  if (trust != trust_) return verdict.status;  // a file has changed
  AddIntermediates(std::exchange(verdict.intermediates, {}));
  if (!verdict.status.ok()) {
    if (rejected_.size() >= kMaxRejected) rejected_.clear();
    return (rejected_[key] = std::move(verdict)).status;
  }
  if (accepted_bytes_ + certificate.size() > kMaxAcceptedBytes) {
    accepted_.clear();
    accepted_bytes_ = 0;
  }
  const auto [entry, is_new] =
      accepted_.insert_or_assign(std::string(certificate), verdict.until);
  if (is_new) accepted_bytes_ += entry->first.size();
  return {};
}

ClientCertificates::Verdict ClientCertificates::Verify(
    const Trust& trust, const Certificates& intermediates,
    std::string_view certificate, std::string_view chain) const {
  Verdict verdict{{}, trust.lists_until, {}};
  const auto reject = [&verdict](const std::string& why) {
    verdict.status = NotValid(why);
    verdict.until = std::time(nullptr) + kMinVerdictSeconds;
    return std::move(verdict);
  };
  const auto own = ReadCertificates({{"", ""}, std::string(certificate)});
  Result<std::vector<Certificate>> others = std::vector<Certificate>();
  if (!chain.empty()) others = ReadCertificates({{"", ""}, std::string(chain)});
  if (!own.ok() || !others.ok()) return reject("its PEM cannot be parsed");
  const std::unique_ptr<STACK_OF(X509), FreeStack> untrusted(
      sk_X509_new_null());
  for (const Certificate& other : *others) {
    sk_X509_push(untrusted.get(), other.get());
  }
  for (const auto& intermediate : intermediates) {
    sk_X509_push(untrusted.get(), intermediate.get());
  }
  // The first pass ignores the revocation lists, so that the intermediate
  // certificates are stored even if a list is missing. Resumed sessions send no
  // chain, so they need the stored certificates.
  for (const unsigned long flags : {0UL, kCrlFlags}) {  // NOLINT: OpenSSL's
    const StoreContext context(X509_STORE_CTX_new());
    if (X509_STORE_CTX_init(context.get(), trust.store.get(),
                            own->front().get(), untrusted.get()) != 1 ||
        X509_STORE_CTX_set_default(context.get(), "ssl_client") != 1) {
      return reject(LastOpenSslError());
    }
    X509_STORE_CTX_set_flags(context.get(), flags);
    X509_STORE_CTX_set_verify_cb(context.get(), IgnoreAnchorRevocationErrors);
    if (X509_verify_cert(context.get()) != 1) {
      return reject(X509_verify_cert_error_string(
          X509_STORE_CTX_get_error(context.get())));
    }
    STACK_OF(X509)* verified = X509_STORE_CTX_get0_chain(context.get());
    const int last = sk_X509_num(verified) - 1;
    for (int i = 0; i <= last; ++i) {
      X509* link = sk_X509_value(verified, i);
      // notAfter is inclusive: a certificate expires one second later.
      verdict.until =
          std::min(verdict.until, ToTime(X509_get0_notAfter(link)) + 1);
      if (i == 0 || i == last) continue;
      X509_up_ref(link);
      verdict.intermediates.emplace_back(link, X509_free);
    }
    if (files_.revoked.empty()) break;
  }
  // If an unrelated revocation list has expired, `until` is in the past. Cache
  // the verdict for kMinVerdictSeconds nevertheless.
  verdict.until =
      std::max(verdict.until, std::time(nullptr) + kMinVerdictSeconds);
  return verdict;
}

void ClientCertificates::AddIntermediates(Certificates verified) const {
  for (auto& link : verified) {
    const bool known =
        std::ranges::any_of(intermediates_, [&link](const auto& intermediate) {
          return X509_cmp(intermediate.get(), link.get()) == 0;
        });
    if (known) continue;
    if (intermediates_.size() >= kMaxIntermediates) {
      intermediates_.erase(intermediates_.begin());
    }
    intermediates_.push_back(std::move(link));
  }
}

}  // namespace topk
