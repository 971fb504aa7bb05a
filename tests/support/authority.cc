#include "tests/support/authority.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <cstdlib>
#include <fstream>

namespace topk::testing {
namespace {

void Check(bool good) {
  if (!good) std::abort();
}

template <class Write>
std::string Pem(const Write& write) {
  BIO* bio = BIO_new(BIO_s_mem());
  Check(write(bio) == 1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio, &text);
  std::string pem(text, static_cast<size_t>(size));
  BIO_free(bio);
  return pem;
}

void Extend(X509* certificate, int nid, const std::string& value) {
  X509_EXTENSION* extension =
      X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
  Check(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

// Returns an unsigned certificate.
X509* Make(const CertificateSpec& spec, EVP_PKEY* key, X509_NAME* issuer) {
  X509* certificate = X509_new();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), spec.serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate), spec.valid_from);
  X509_gmtime_adj(X509_getm_notAfter(certificate), spec.valid_to);
  X509_NAME* subject = X509_get_subject_name(certificate);
  if (!spec.common_name.empty()) {
    X509_NAME_add_entry_by_txt(
        subject, "CN", MBSTRING_ASC,
        reinterpret_cast<const unsigned char*>(spec.common_name.c_str()), -1,
        -1, 0);
  }
  X509_set_issuer_name(certificate, issuer == nullptr ? subject : issuer);
  X509_set_pubkey(certificate, key);
  if (!spec.names.empty()) {
    Extend(certificate, NID_subject_alt_name, spec.names);
  }
  return certificate;
}

std::string CertificatePem(X509* certificate) {
  return Pem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

}  // namespace

struct Authority::Impl {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = nullptr;
  std::string pem;
};

Authority::Authority() : Authority(nullptr) {}

Authority::Authority(const Impl* parent) : impl_(std::make_unique<Impl>()) {
  // A unique name, because OpenSSL looks up issuers by name.
  static std::atomic<int> count = 0;
  impl_->certificate = Make(
      {"authority " + std::to_string(++count), "", 1}, impl_->key,
      parent == nullptr ? nullptr : X509_get_subject_name(parent->certificate));
  Extend(impl_->certificate, NID_basic_constraints, "critical,CA:TRUE");
  Check(X509_sign(impl_->certificate,
                  parent == nullptr ? impl_->key : parent->key,
                  EVP_sha256()) > 0);
  impl_->pem = CertificatePem(impl_->certificate);
}

Authority::~Authority() {
  X509_free(impl_->certificate);
  EVP_PKEY_free(impl_->key);
}

const std::string& Authority::certificate() const { return impl_->pem; }

Identity Authority::Issue(const CertificateSpec& spec) const {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate =
      Make(spec, key, X509_get_subject_name(impl_->certificate));
  Check(X509_sign(certificate, impl_->key, EVP_sha256()) > 0);
  Identity identity{CertificatePem(certificate), Pem([&](BIO* bio) {
                      return PEM_write_bio_PrivateKey(
                          bio, key, nullptr, nullptr, 0, nullptr, nullptr);
                    })};
  X509_free(certificate);
  EVP_PKEY_free(key);
  return identity;
}

std::unique_ptr<Authority> Authority::Delegate() const {
  return std::unique_ptr<Authority>(new Authority(impl_.get()));
}

std::string Authority::Revoke(const std::vector<long>& serials,
                              long valid_to) const {
  X509_CRL* list = X509_CRL_new();
  X509_CRL_set_version(list, X509_CRL_VERSION_2);
  X509_CRL_set_issuer_name(list, X509_get_subject_name(impl_->certificate));
  ASN1_TIME* time = ASN1_TIME_new();
  X509_gmtime_adj(time, -3600);
  X509_CRL_set1_lastUpdate(list, time);
  for (const long serial : serials) {
    X509_REVOKED* revoked = X509_REVOKED_new();
    ASN1_INTEGER* number = ASN1_INTEGER_new();
    ASN1_INTEGER_set(number, serial);
    X509_REVOKED_set_serialNumber(revoked, number);
    X509_REVOKED_set_revocationDate(revoked, time);
    Check(X509_CRL_add0_revoked(list, revoked) == 1);
    ASN1_INTEGER_free(number);
  }
  X509_gmtime_adj(time, valid_to);
  X509_CRL_set1_nextUpdate(list, time);
  ASN1_TIME_free(time);
  Check(X509_CRL_sign(list, impl_->key, EVP_sha256()) > 0);
  std::string pem =
      Pem([&](BIO* bio) { return PEM_write_bio_X509_CRL(bio, list); });
  X509_CRL_free(list);
  return pem;
}

std::string EncryptedKey() {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  unsigned char passphrase[] = "secret";
  std::string pem = Pem([&](BIO* bio) {
    return PEM_write_bio_PrivateKey(bio, key, EVP_aes_128_cbc(), passphrase,
                                    sizeof(passphrase) - 1, nullptr, nullptr);
  });
  EVP_PKEY_free(key);
  return pem;
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::trunc) << text;
}

}  // namespace topk::testing
