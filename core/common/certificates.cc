#include "core/common/certificates.h"

#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <utility>

#include "core/base/text.h"

namespace topk {
namespace {

using Bio = std::unique_ptr<BIO, FreeWith<BIO_free_all>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY_free>>;

// Returns the status for an invalid PEM file. `what` completes the message
// "FLAG: PATH ...".
Status BadPem(const PemFile& pem, const std::string& what) {
  ERR_clear_error();
  return InvalidArgument("TLS_FILE", pem.file.flag,
                         StrCat(pem.file.flag, ": ", pem.file.path, " ", what));
}

Bio Open(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// A passphrase callback that fails, because nobody can enter a passphrase.
int NoPassphrase(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

// Reads all objects of one type. `kind` names the type in error messages.
template <class Object, class Read>
Result<std::vector<Object>> ReadAll(const PemFile& pem, const char* kind,
                                    Read read) {
  const Bio bio = Open(pem.text);
  std::vector<Object> objects;
  bool asked = false;
  ERR_clear_error();
  while (Object next{read(bio.get(), nullptr, NoPassphrase, &asked)}) {
    objects.push_back(std::move(next));
  }
  // The error "no start line" only means that the end of the text was reached.
  const unsigned long end = ERR_peek_last_error();  // NOLINT: OpenSSL's type
  if (ERR_GET_LIB(end) != ERR_LIB_PEM ||
      ERR_GET_REASON(end) != PEM_R_NO_START_LINE) {
    const std::string reason = LastOpenSslError();
    return BadPem(pem, StrCat("has a damaged ", kind, " (number ",
                              objects.size() + 1, "): ", reason));
  }
  if (objects.empty())
    return BadPem(pem, StrCat("has no ", kind, " in PEM form"));
  ERR_clear_error();
  return objects;
}

Result<PrivateKey> ReadPrivateKey(const PemFile& pem) {
  const Bio bio = Open(pem.text);
  bool asked = false;
  ERR_clear_error();
  PrivateKey key(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, &asked));
  if (asked) {
    return BadPem(pem, "is encrypted; a key without passphrase is needed");
  }
  if (key == nullptr) return BadPem(pem, "has no private key in PEM form");
  return key;
}

CertificateInfo Describe(X509* certificate) {
  CertificateInfo info;
  const Bio name(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(name.get(), X509_get_subject_name(certificate), 0,
                     XN_FLAG_RFC2253);
  char* text = nullptr;
  const long length = BIO_get_mem_data(name.get(), &text);  // NOLINT
  info.subject.assign(text, static_cast<size_t>(length));
  const std::unique_ptr<BIGNUM, FreeWith<BN_free>> number(
      ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
  char* hex = number == nullptr ? nullptr : BN_bn2hex(number.get());
  if (hex != nullptr) info.serial = hex;
  OPENSSL_free(hex);
  info.not_before = ToTime(X509_get0_notBefore(certificate));
  info.not_after = ToTime(X509_get0_notAfter(certificate));
  return info;
}

}  // namespace

Result<std::vector<Certificate>> ReadCertificates(const PemFile& pem) {
  return ReadAll<Certificate>(pem, "certificate", PEM_read_bio_X509);
}

Result<std::vector<RevocationList>> ReadRevocationLists(const PemFile& pem) {
  return ReadAll<RevocationList>(pem, "revocation list", PEM_read_bio_X509_CRL);
}

Result<CertificateInfo> CheckKeyPair(const PemFile& certificate,
                                     const PemFile& key) {
  const Result<std::vector<Certificate>> chain = ReadCertificates(certificate);
  if (!chain.ok()) return chain.status();
  const Result<PrivateKey> own = ReadPrivateKey(key);
  if (!own.ok()) return own.status();
  X509* leaf = chain->front().get();
  if (X509_check_private_key(leaf, own->get()) != 1) {
    return BadPem(key,
                  StrCat("is not the key of the first certificate of ",
                         certificate.file.flag, " ", certificate.file.path));
  }
  const std::unique_ptr<SSL_CTX, FreeWith<SSL_CTX_free>> context(
      SSL_CTX_new(TLS_method()));
  bool good = context != nullptr &&
              SSL_CTX_use_certificate(context.get(), leaf) == 1 &&
              SSL_CTX_use_PrivateKey(context.get(), own->get()) == 1;
  for (size_t i = 1; good && i < chain->size(); ++i) {
    good = SSL_CTX_add1_chain_cert(context.get(), (*chain)[i].get()) == 1;
  }
  if (!good) {
    return BadPem(certificate,
                  StrCat("cannot be used for TLS: ", LastOpenSslError()));
  }
  CertificateInfo info = Describe(leaf);
  if (info.not_after <= std::time(nullptr)) {
    return BadPem(certificate, StrCat("expired at ", UtcText(info.not_after)));
  }
  return info;
}

std::string LastOpenSslError() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  std::string text = reason == nullptr ? "unknown reason" : reason;
  ERR_clear_error();
  return text;
}

std::time_t ToTime(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? timegm(&parts) : 0;
}

std::string UtcText(std::time_t time) {
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  const size_t size =
      std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, size};
}

}  // namespace topk
