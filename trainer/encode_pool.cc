#include "trainer/encode_pool.h"

namespace spillway {

EncodePool::EncodePool(const Tokenizer& tokenizer, Options options)
    : tokenizer_(tokenizer), options_(std::move(options)) {
  for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { work(); });
}

EncodePool::~EncodePool() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
}

std::future<EncodedBatch> EncodePool::encode(std::vector<Document> documents) {
  Task task([this, batch = std::move(documents)](TextEncoder& encoder) mutable {
    return encode_batch(encoder, batch);
  });
  std::future<EncodedBatch> future = task.get_future();
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
  return future;
}

void EncodePool::work() {
  TextEncoder encoder(tokenizer_);
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ending_ || !tasks_.empty(); });
    if (ending_) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task(encoder);
  }
}

EncodedBatch EncodePool::encode_batch(TextEncoder& encoder,
                                      std::vector<Document>& documents) const {
  EncodedBatch batch;
  for (Document& document : documents) {
    const size_t input = document.input;
    const int64_t number = document.number;
    const std::string text =
        text_of(std::move(document), options_.paths[input], options_.documents);
    encoder.encode(text, batch.ids);
    if (!text.empty() && options_.eos) batch.ids.push_back(*options_.eos);
    batch.documents.push_back({input, number, batch.ids.size()});
    batch.text_bytes += static_cast<int64_t>(text.size());
  }
  return batch;
}

}  // namespace spillway
