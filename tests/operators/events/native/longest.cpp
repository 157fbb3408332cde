// An operator in C++: it keeps what it was told as an object, sends the longest text, and what it throws is an error.
extern "C" {
#include "operator_api.h"
}
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

class Operator {
  public:
    std::string told(const std::string &text) {
        if (text == "throw") throw std::runtime_error("thrown in C++");
        texts_.push_back(text);
        std::string longest;
        for (const auto &one : texts_)
            if (one.size() > longest.size()) longest = one;
        return longest + " of " + std::to_string(texts_.size());
    }

  private:
    std::vector<std::string> texts_;
};

DoraResult_t error(const char *text) {
    auto *made = static_cast<Vec_uint8_t *>(std::malloc(sizeof(Vec_uint8_t)));
    made->len = made->cap = std::strlen(text);
    made->ptr = reinterpret_cast<uint8_t *>(strdup(text));
    return DoraResult_t{made};
}

}  // namespace

extern "C" {

DoraInitResult_t dora_init_operator(void) { return DoraInitResult_t{DoraResult_t{nullptr}, new Operator()}; }

DoraResult_t dora_drop_operator(void *context) {
    delete static_cast<Operator *>(context);
    return DoraResult_t{nullptr};
}

OnEventResult_t dora_on_event(RawEvent_t *event, const SendOutput_t *send_output, void *context) {
    OnEventResult_t result{DoraResult_t{nullptr}, 0};
    if (event->input == nullptr) return result;
    Vec_uint8_t data = dora_read_data(event->input);
    try {
        const std::string sent = static_cast<Operator *>(context)->told(std::string(data.ptr, data.ptr + data.len));
        result.result = dora_send_operator_output(send_output, "told", reinterpret_cast<const uint8_t *>(sent.data()), sent.size());
    } catch (const std::exception &raised) {
        result.result = error(raised.what());
    }
    dora_free_data(data);
    return result;
}
}
