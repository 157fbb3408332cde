/* An operator in C: it counts its messages, and does what some of them say. */
#include "operator_api.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

DoraInitResult_t dora_init_operator(void) {
    DoraInitResult_t result = {.operator_context = calloc(1, sizeof(int))};
    return result;
}

DoraResult_t dora_drop_operator(void *context) {
    DoraResult_t result = {0};
    const char *path = getenv("DO_TEST_DROPPED");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "dropped after %d", *(int *)context);
        fclose(file);
    }
    free(context);
    return result;
}

static DoraResult_t error(const char *text) {
    DoraResult_t result = {.error = malloc(sizeof(Vec_uint8_t))};
    result.error->ptr = (uint8_t *)strdup(text);
    result.error->len = result.error->cap = strlen(text);
    return result;
}

static DoraResult_t tell(const SendOutput_t *send_output, const char *what, int count) {
    char text[100];
    int len = snprintf(text, sizeof text, "%s %d", what, count);
    return dora_send_operator_output(send_output, "told", (const uint8_t *)text, len);
}

OnEventResult_t dora_on_event(RawEvent_t *event, const SendOutput_t *send_output, void *context) {
    OnEventResult_t result = {.status = 0};
    int *count = context;
    if (event->input != NULL) {
        char *id = dora_read_input_id(event->input);
        Vec_uint8_t data = dora_read_data(event->input);
        *count += 1;
        char first = data.len ? (char)data.ptr[0] : '-';
#ifndef CORRECTED
        if (first == 'a') abort();
#endif
        if (first == 'h') for (;;) sleep(1);
        if (first == 's') result.status = 1;
        while (first == 'm') {
            tell(send_output, "more", *count);
            usleep(20000);
        }
        result.result = first == 'e' ? error("no such thing") : tell(send_output, id, *count);
        dora_free_data(data);
        dora_free_input_id(id);
    } else if (event->input_closed.ptr != NULL) {
        result.result = tell(send_output, "closed", *count);
    } else if (event->stop) {
        result.result = tell(send_output, "stop", *count);
    }
    return result;
}
