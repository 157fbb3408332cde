/* An operator in C that answers each message with the open telemetry context that it came with, and a longer one of its own. */
#include "operator_api.h"
#include <stdlib.h>
#include <string.h>

struct ArrowArray { int64_t numbers[5]; void *pointers[5]; };
struct ArrowSchema { void *pointers[9]; };
struct Input { uint64_t has_data; struct ArrowArray array; Vec_uint8_t id, metadata; struct ArrowSchema schema; };
typedef struct { Vec_uint8_t id, metadata; struct ArrowArray array; struct ArrowSchema schema; } Output;
struct SendOutput { void *env; DoraResult_t (*call)(void *, Output); void (*release)(void *); void (*retain)(void *); };

static Vec_uint8_t context;

/* What the helper sends goes through here, and gets a context. */
static DoraResult_t with_context(void *send_output, Output output) {
    const struct SendOutput *own = send_output;
    output.metadata.len = output.metadata.cap = context.len + 1;
    output.metadata.ptr = malloc(output.metadata.len);
    memcpy(output.metadata.ptr, context.ptr, context.len);
    output.metadata.ptr[context.len] = '+';
    return own->call(own->env, output);
}

DoraInitResult_t dora_init_operator(void) { return (DoraInitResult_t){0}; }

DoraResult_t dora_drop_operator(void *own) { return (DoraResult_t){0}; }

OnEventResult_t dora_on_event(RawEvent_t *event, const SendOutput_t *send_output, void *own) {
    OnEventResult_t result = {.status = 0};
    if (!event->input) return result;
    context = event->input->metadata;
    SendOutput_t traced = {.env = (void *)send_output, .call = with_context};
    result.result = dora_send_operator_output(&traced, "told", context.ptr, context.len);
    return result;
}
