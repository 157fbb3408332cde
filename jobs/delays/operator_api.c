/* The helpers, as dora's own library has them, for arrays of bytes. OTHER_LAYOUT puts the fields of an input elsewhere. */
#include "operator_api.h"
#include <stdlib.h>
#include <string.h>

struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};
struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};
#ifdef OTHER_LAYOUT
struct Input { Vec_uint8_t metadata; uint64_t has_data; struct ArrowArray array; Vec_uint8_t id; struct ArrowSchema schema; };
#else
struct Input { uint64_t has_data; struct ArrowArray array; Vec_uint8_t id, metadata; struct ArrowSchema schema; };
#endif
typedef struct { Vec_uint8_t id, metadata; struct ArrowArray array; struct ArrowSchema schema; } Output;
struct SendOutput { void *env; DoraResult_t (*call)(void *, Output); void (*release)(void *); void (*retain)(void *); };

char *dora_read_input_id(const Input_t *input) {
    char *id = malloc(input->id.len + 1);
    memcpy(id, input->id.ptr, input->id.len);
    id[input->id.len] = 0;
    return id;
}

void dora_free_input_id(char *id) { free(id); }

Vec_uint8_t dora_read_data(Input_t *input) {
    Vec_uint8_t data = {0};
    if (!input->has_data || strcmp(input->schema.format, "C") != 0) return data;
    input->has_data = 0;
    data.len = data.cap = input->array.length;
    data.ptr = malloc(data.len + 1);
    memcpy(data.ptr, (const uint8_t *)input->array.buffers[1] + input->array.offset, data.len);
    input->array.release(&input->array);
    return data;
}

void dora_free_data(Vec_uint8_t data) { free(data.ptr); }

static void release_array(struct ArrowArray *array) {
    free((void *)array->buffers[1]);
    free(array->buffers);
    array->release = NULL;
}

static void release_schema(struct ArrowSchema *schema) { schema->release = NULL; }

DoraResult_t dora_send_operator_output(const SendOutput_t *send_output, const char *id, const uint8_t *data, size_t len) {
    Output output = {0};
    output.id.len = output.id.cap = strlen(id);
    output.id.ptr = (uint8_t *)strdup(id);
    output.metadata.ptr = (uint8_t *)1;
    output.array.length = len;
    output.array.n_buffers = 2;
    output.array.buffers = calloc(2, sizeof(void *));
    output.array.buffers[1] = malloc(len + 1);
    memcpy((void *)output.array.buffers[1], data, len);
    output.array.release = release_array;
    output.schema.format = "C";
    output.schema.name = "";
    output.schema.release = release_schema;
    return send_output->call(send_output->env, output);
}
