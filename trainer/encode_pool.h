// Documents to ids, on all cores.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "text/tokenizer.h"
#include "trainer/documents.h"

namespace spillway {

// A document's ids end at `end` of its batch's.
struct EncodedDocument {
  size_t input;
  int64_t number;
  size_t end;
};

struct EncodedBatch {
  std::vector<int32_t> ids;
  std::vector<EncodedDocument> documents;
  int64_t text_bytes = 0;
};

// Batches may end in any order; each has a future, so that the caller takes them in his.
class EncodePool {
 public:
  struct Options {
    int threads = 1;
    std::optional<int32_t> eos;  // behind every document that is not empty
    DocumentOptions documents;
    std::vector<std::string> paths;  // of the inputs, for messages
  };
  // The tokenizer must outlive the pool.
  EncodePool(const Tokenizer& tokenizer, Options options);
  ~EncodePool();  // what is not begun is dropped
  EncodePool(const EncodePool&) = delete;
  EncodePool& operator=(const EncodePool&) = delete;

  // The future throws what encoding threw.
  [[nodiscard]] std::future<EncodedBatch> encode(std::vector<Document> documents);

 private:
  using Task = std::packaged_task<EncodedBatch(TextEncoder&)>;
  void work();
  EncodedBatch encode_batch(TextEncoder& encoder, std::vector<Document>& documents) const;

  const Tokenizer& tokenizer_;
  Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool ending_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace spillway
