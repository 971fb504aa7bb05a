// Reads PEM files with OpenSSL.
#pragma once

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/security/small_file.h"

namespace topk {

/// The deleter of an OpenSSL type, e.g. OpenSslFree<X509_free>.
template <auto kFree>
struct OpenSslFree {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, OpenSslFree<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, OpenSslFree<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, OpenSslFree<EVP_PKEY_free>>;
using RevocationList = std::unique_ptr<X509_CRL, OpenSslFree<X509_CRL_free>>;
using SslContext = std::unique_ptr<SSL_CTX, OpenSslFree<SSL_CTX_free>>;

/// A PEM file that has been read.
struct PemFile {
  NamedFile file;
  std::string text;
};

/// Each returns what the file has: one or more, in the file's order; or
/// INVALID_ARGUMENT, TLS_FILE, which names the flag, the file and the rule:
/// the file lacks it, one is damaged, a key is encrypted.
Result<std::vector<Certificate>> ReadCertificates(const PemFile& pem);
Result<std::vector<RevocationList>> ReadRevocationLists(const PemFile& pem);
Result<Key> ReadKey(const PemFile& pem);

/// The status of a file that is wrong; `what` completes "FLAG: PATH ...".
Status BadPem(const PemFile& pem, const std::string& what);

/// Returns the reason of OpenSSL's last failure on this thread, and forgets it.
std::string LastOpenSslError();

/// Returns 0 for a time that cannot be read.
std::time_t ToTime(const ASN1_TIME* time);

}  // namespace topk
