#include "core/common/pem.h"

#include <openssl/err.h>

#include <utility>

#include "core/base/text.h"

namespace topk {
namespace {

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

}  // namespace

Result<std::vector<Certificate>> ReadCertificates(const PemFile& pem) {
  return ReadAll<Certificate>(pem, "certificate", PEM_read_bio_X509);
}

Result<std::vector<RevocationList>> ReadRevocationLists(const PemFile& pem) {
  return ReadAll<RevocationList>(pem, "revocation list", PEM_read_bio_X509_CRL);
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

Status BadPem(const PemFile& pem, const std::string& what) {
  ERR_clear_error();
  return InvalidArgument("TLS_FILE", pem.file.flag,
                         StrCat(pem.file.flag, ": ", pem.file.path, " ", what));
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

}  // namespace topk
