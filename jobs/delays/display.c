/* An operator in C: numbers the lines that it gets, and adds a checksum to each, as a display board wants them. */
#include "operator_api.h"
#include <stdio.h>
#include <stdlib.h>

DoraInitResult_t dora_init_operator(void) {
    DoraInitResult_t result = {.operator_context = calloc(1, sizeof(unsigned))};
    return result;
}

DoraResult_t dora_drop_operator(void *context) {
    DoraResult_t result = {0};
    free(context);
    return result;
}

OnEventResult_t dora_on_event(RawEvent_t *event, const SendOutput_t *send_output, void *context) {
    OnEventResult_t result = {.status = 0};
    if (event->input == NULL) return result;
    unsigned *lines = context, sum = 0;
    Vec_uint8_t data = dora_read_data(event->input);
    for (size_t i = 0; i < data.len; i++) sum = (sum + data.ptr[i]) % 256;
    char text[200];
    int len = snprintf(text, sizeof text, "%u %.*s *%02X", ++*lines, (int)data.len, (const char *)data.ptr, sum);
    result.result = dora_send_operator_output(send_output, "shown", (const uint8_t *)text, len);
    dora_free_data(data);
    return result;
}
