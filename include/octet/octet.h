/*===- octet.h - Running compiled models from a program -----------*- C -*-===*\
|*                                                                            *|
|* Part of the Octet project, under the Apache License v2.0 with LLVM         *|
|* Exceptions. See LICENSE for license information.                           *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* What an executable of Octet does on its command line, for a program:       *|
|*                                                                            *|
|*   octet_file       an executable, or a program of --emit program, opened   *|
|*   octet_tokenizer  text to ids and back, if the file carries a tokenizer   *|
|*   octet_model      the weights in memory, and a paged KV cache             *|
|*   octet_seq        the tokens of one conversation, and its pages           *|
|*   octet_step       one batch: prefill chunks and single tokens of several  *|
|*                    sequences, in any mix                                   *|
|*   octet_sample     the next token                                          *|
|*                                                                            *|
|* A whole use, without the error handling:                                   *|
|*                                                                            *|
|*   octet_file_open("model.exe", &file, &error);                             *|
|*   octet_model_load(file, NULL, &model, &error);                            *|
|*   octet_seq_create(model, &seq, &error);                                   *|
|*   octet_seq_append(seq, prompt, prompt_length, &error);                    *|
|*   for (;;) {                                                               *|
|*     octet_entry entry = {seq, octet_seq_pending(seq), 1};                  *|
|*     octet_step(model, &entry, 1, logits, vocab, &error);                   *|
|*     octet_sample(logits, vocab, NULL, 0, n++, NULL, 0, &id, &error);       *|
|*     octet_seq_append(seq, &id, 1, &error);                                 *|
|*   }                                                                        *|
|*                                                                            *|
|* examples/c-api and examples/python-ctypes are complete programs.           *|
|*                                                                            *|
|* Errors are values: a function that can fail returns an octet_status and    *|
|* takes, last, where to put an octet_error, or NULL. Nothing is printed, no  *|
|* function ends the process. (Two things are out of its hands: a weights     *|
|* file that somebody cuts short while it is mapped raises SIGBUS, and a      *|
|* thread that gets no memory for a kernel's scratch, some MB, ends it.)      *|
|*                                                                            *|
|* Memory: what a function gives through a `T **` with `create`, `open`,      *|
|* `load` or `fork` in its name is the caller's, to be freed by the function  *|
|* of the type; text and ids given through a pointer are freed by octet_free. *|
|* Handles may be freed in any order: a model keeps what it needs of its      *|
|* file, a sequence of its model. All of these take NULL and do nothing then. *|
|* What a function returns as a `const` pointer belongs to its handle.        *|
|*                                                                            *|
|* Threads: there is no global state. A model with its sequences is used by   *|
|* one thread at a time, whichever; it has threads of its own for the work.   *|
|* Different models are independent, and one file may be loaded twice.        *|
|* octet_file and octet_tokenizer may be used by several threads at once.     *|
|*                                                                            *|
|* Results: a row of logits does not depend on the other sequences of its     *|
|* step, on how the tokens were cut into steps, on the number of threads, or  *|
|* on whether pages are shared (rule B5): bit for bit.                        *|
|*                                                                            *|
|* The structs of options start with their size and are set up by an `_init`  *|
|* function, so that they can grow; NULL in their place means the defaults.   *|
|* Flags are int32_t, 0 or 1. Texts are UTF-8 of a given length in bytes;     *|
|* those given to the caller end in a NUL that their length does not count.   *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef OCTET_OCTET_H
#define OCTET_OCTET_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define OCTET_API __attribute__((visibility("default")))
#else
#define OCTET_API
#endif

/* Of this header; a program checks it against octet_api_version(). It changes
   when a function or a struct changes, not when some are added. */
#define OCTET_API_VERSION 1

OCTET_API int32_t octet_api_version(void);
/* Of Octet, as text: "0.1.0". */
OCTET_API const char *octet_version(void);

/*===----------------------------------------------------------------------===*\
|* Errors                                                                     *|
\*===----------------------------------------------------------------------===*/

/* Who has to act. */
typedef int32_t octet_status;
enum {
  OCTET_OK = 0,
  OCTET_ERROR_INPUT = 1,    /* a file, text or id is wrong or cannot run */
  OCTET_ERROR_USAGE = 2,    /* the call is: an argument, an option */
  OCTET_ERROR_INTERNAL = 3, /* a bug of Octet's */
  OCTET_ERROR_MACHINE = 4,  /* no memory, no file, no such processor */
  OCTET_ERROR_PAGES = 5     /* octet_step: not enough free pages of the cache */
};

/* One error, in words: `error: SUBJECT: what is wrong; what would be right
   [RULE]`. A function sets `*error` to NULL if it succeeds, and to a new error
   if it fails (NULL even then if there is no memory for one); what was there
   before is not freed. The subject of an error about an option is the option
   of the command line, such as `--simd`. */
typedef struct octet_error octet_error;

OCTET_API octet_status octet_error_status(const octet_error *error);
/* All of it as lines, each ended by a newline: the error, then its notes. */
OCTET_API const char *octet_error_text(const octet_error *error);
/* The parts of it. The rule is a number of the specification, or empty. */
OCTET_API const char *octet_error_subject(const octet_error *error);
OCTET_API const char *octet_error_message(const octet_error *error);
OCTET_API const char *octet_error_rule(const octet_error *error);
/* Notes that walk to the cause: how many, and one of them. */
OCTET_API size_t octet_error_notes(const octet_error *error);
OCTET_API const char *octet_error_note(const octet_error *error, size_t index);
OCTET_API void octet_error_free(octet_error *error);

/* Frees text or ids that a function gave. */
OCTET_API void octet_free(void *memory);

/*===----------------------------------------------------------------------===*\
|* Files                                                                      *|
\*===----------------------------------------------------------------------===*/

/* An executable or a program file. The weights are not in it. */
typedef struct octet_file octet_file;

/* Sizes that the program was compiled for. */
typedef struct octet_limits {
  size_t size;             /* set by octet_limits_init */
  int64_t vocab;           /* a row of logits; ids are 0 to vocab - 1. 0 for an
                              extracted module */
  int64_t max_context;     /* most tokens of a sequence */
  int64_t max_sequences;   /* most entries of a step */
  int64_t max_step_tokens; /* most tokens of a step, of all entries together */
  int64_t page_tokens;     /* tokens of a page of the KV cache */
  int64_t module_in;       /* widths of an extracted module's rows, in elements;
                              0 for a model */
  int64_t module_out;
} octet_limits;

OCTET_API void octet_limits_init(octet_limits *limits, size_t size);

/* Opens `path`.
   Errors: INPUT if it is no program, damaged, or cannot be read. */
OCTET_API octet_status octet_file_open(const char *path, octet_file **file,
                                       octet_error **error);
/* The running executable, if it carries a program, as those that `octet
   compile` makes do; else `*file` is NULL, which is no error.
   Errors: INPUT if the program is damaged. */
OCTET_API octet_status octet_file_open_own(octet_file **file,
                                           octet_error **error);
OCTET_API void octet_file_close(octet_file *file);
/* As it was opened; of the running executable its real path. */
OCTET_API const char *octet_file_path(const octet_file *file);

/* What the program is, as `EXE info --json` says it: one JSON object.
   Errors: INPUT if the program was made by another version. */
OCTET_API octet_status octet_file_info(const octet_file *file, char **json,
                                       size_t *bytes, octet_error **error);
/* Errors: as octet_file_info. */
OCTET_API octet_status octet_file_limits(const octet_file *file,
                                         octet_limits *limits,
                                         octet_error **error);
OCTET_API int32_t octet_file_has_tokenizer(const octet_file *file);
OCTET_API int32_t octet_file_has_chat_template(const octet_file *file);

/* Writes a conversation as the checkpoint's own chat template has it, with the
   start of an answer. The text has its special tokens: encode it without
   adding any.
   conversation  [bytes] JSON: a list `[{"role": "user", "content": "…"}, …]`,
                 or an object with such `messages` and, beside it, `tools` and
                 other variables of the template (`enable_thinking`,
                 `"add_generation_prompt": false`).
   subject       what errors call the conversation; NULL: "conversation".
   text          [*text_bytes] the caller's.
   Errors: INPUT if there is no template, the JSON is not so, or the template
   refuses it. */
OCTET_API octet_status octet_file_render_chat(const octet_file *file,
                                              const char *conversation,
                                              size_t bytes, const char *subject,
                                              char **text, size_t *text_bytes,
                                              octet_error **error);

/*===----------------------------------------------------------------------===*\
|* Text                                                                       *|
\*===----------------------------------------------------------------------===*/

typedef struct octet_tokenizer octet_tokenizer;

/* The tokenizer that a file carries. It takes as long to read as the weights
   do; another thread may load the model meanwhile.
   Errors: INPUT if there is none, or one that is not supported. */
OCTET_API octet_status octet_tokenizer_create(const octet_file *file,
                                              octet_tokenizer **tokenizer,
                                              octet_error **error);
OCTET_API void octet_tokenizer_free(octet_tokenizer *tokenizer);

/* The largest id + 1. */
OCTET_API int64_t octet_tokenizer_end(const octet_tokenizer *tokenizer);
/* A token as the vocabulary spells it (`Ġthe`, `<0x0A>`), not ended by a NUL;
   NULL if no token has the id. */
OCTET_API const char *octet_tokenizer_token(const octet_tokenizer *tokenizer,
                                            int64_t id, size_t *bytes);
/* The id of a token by that spelling; -1 if there is none. */
OCTET_API int32_t octet_tokenizer_find(const octet_tokenizer *tokenizer,
                                       const char *token, size_t bytes);
OCTET_API int32_t octet_tokenizer_is_special(const octet_tokenizer *tokenizer,
                                             int64_t id);
/* What is odd in the tokenizer but can be used: how many, and one of them. */
OCTET_API size_t octet_tokenizer_warnings(const octet_tokenizer *tokenizer);
OCTET_API const char *octet_tokenizer_warning(const octet_tokenizer *tokenizer,
                                              size_t index);

/* Text to ids. Special tokens that the text spells are recognised; what is not
   UTF-8 counts as U+FFFD.
   add_special  with what belongs around a text, such as bos.
   ids          [*count] the caller's; not NULL even if there are none.
   Errors: INPUT if a pattern of the tokenizer finds no end on the text. */
OCTET_API octet_status octet_tokenizer_encode(const octet_tokenizer *tokenizer,
                                              const char *text, size_t bytes,
                                              int32_t add_special,
                                              int32_t **ids, size_t *count,
                                              octet_error **error);
/* Ids to text; ids that no token has are passed over.
   skip_special  without special tokens.
   text          [*bytes] the caller's. */
OCTET_API octet_status octet_tokenizer_decode(const octet_tokenizer *tokenizer,
                                              const int32_t *ids, size_t count,
                                              int32_t skip_special, char **text,
                                              size_t *bytes,
                                              octet_error **error);

/* Decodes ids one after the other. The pieces joined are what
   octet_tokenizer_decode gives for all of them; each is whole characters. */
typedef struct octet_decoder octet_decoder;

OCTET_API octet_status octet_decoder_create(const octet_tokenizer *tokenizer,
                                            int32_t skip_special,
                                            octet_decoder **decoder,
                                            octet_error **error);
OCTET_API void octet_decoder_free(octet_decoder *decoder);
/* The text that this id completes, often empty. It is the decoder's and valid
   until its next call. To continue a prompt, push its ids first. */
OCTET_API octet_status octet_decoder_push(octet_decoder *decoder, int32_t id,
                                          const char **text, size_t *bytes,
                                          octet_error **error);
/* What is left: U+FFFD for a character that was begun. Starts anew. */
OCTET_API octet_status octet_decoder_finish(octet_decoder *decoder,
                                            const char **text, size_t *bytes,
                                            octet_error **error);

/*===----------------------------------------------------------------------===*\
|* Models                                                                     *|
\*===----------------------------------------------------------------------===*/

/* A program with its weights, threads and KV cache. The cache has pages for
   max_sequences sequences of max_context tokens; memory for a page is taken
   when it is first written. */
typedef struct octet_model octet_model;

/* In place of a folder: weights of the right shapes with drawn values. */
#define OCTET_RANDOM_WEIGHTS "random"

typedef struct octet_model_options {
  size_t size;         /* set by octet_model_options_init */
  const char *weights; /* folder or file of the checkpoint, or
                          OCTET_RANDOM_WEIGHTS; NULL: the one compiled */
  const char *simd; /* "v3" (AVX2), "avx512", "bf16" or "amx"; NULL: the highest
                       that this machine has */
  int32_t threads;  /* 0: one for each processor this process may use */
  int32_t reserved; /* 0 */
} octet_model_options;

OCTET_API void octet_model_options_init(octet_model_options *options,
                                        size_t size);

/* Maps the weights, checks that they are those that were compiled, and
   prepares them.
   Errors: INPUT if the checkpoint is another or broken (rules W6 and others);
   USAGE for an option; MACHINE if memory or the processor do not do. */
OCTET_API octet_status octet_model_load(const octet_file *file,
                                        const octet_model_options *options,
                                        octet_model **model,
                                        octet_error **error);
/* All memory and the threads are given back when the model and the last of its
   sequences are freed. */
OCTET_API void octet_model_free(octet_model *model);

/* Errors: USAGE if `limits` was not set up. */
OCTET_API octet_status octet_model_limits(const octet_model *model,
                                          octet_limits *limits,
                                          octet_error **error);
OCTET_API int32_t octet_model_threads(const octet_model *model);
OCTET_API const char *octet_model_simd(const octet_model *model);
/* Pages of the KV cache, and those that no sequence has. */
OCTET_API int64_t octet_model_pages(const octet_model *model);
OCTET_API int64_t octet_model_free_pages(const octet_model *model);
/* Ids that begin and end a text, by the checkpoint: how many; `*ids`, unless
   `ids` is NULL, points to them. */
OCTET_API size_t octet_model_bos(const octet_model *model, const int32_t **ids);
OCTET_API size_t octet_model_eos(const octet_model *model, const int32_t **ids);
/* What the user should know and is no error: how many, and one of them. */
OCTET_API size_t octet_model_warnings(const octet_model *model);
OCTET_API const char *octet_model_warning(const octet_model *model,
                                          size_t index);

/* Checks ids of any origin before they are narrowed to int32_t.
   Errors: INPUT if there are none, or one is outside of the vocabulary. */
OCTET_API octet_status octet_model_check_ids(const octet_model *model,
                                             const int64_t *ids, size_t count,
                                             octet_error **error);
/* Errors: INPUT if `tokens` are more than max_context. */
OCTET_API octet_status octet_model_check_length(const octet_model *model,
                                                int64_t tokens,
                                                octet_error **error);

/*===----------------------------------------------------------------------===*\
|* Sequences                                                                  *|
\*===----------------------------------------------------------------------===*/

/* Tokens, the first of which are in the KV cache. It has pages for those that
   are; there may be more sequences than a step can run. */
typedef struct octet_seq octet_seq;

/* An empty sequence. Errors: USAGE if the program is an extracted module. */
OCTET_API octet_status octet_seq_create(octet_model *model, octet_seq **seq,
                                        octet_error **error);
/* A second sequence of the same tokens. What is in the cache is shared, not
   copied: a page is copied when one of its owners writes into it. */
OCTET_API octet_status octet_seq_fork(const octet_seq *seq, octet_seq **copy,
                                      octet_error **error);
/* Gives its pages back, but for those that others have too. */
OCTET_API void octet_seq_free(octet_seq *seq);

/* Adds tokens; a step runs them later.
   Errors: INPUT if an id is outside of the vocabulary or the context is full;
   the sequence is then as before. */
OCTET_API octet_status octet_seq_append(octet_seq *seq, const int32_t *ids,
                                        size_t count, octet_error **error);
/* Cuts to the first `length` tokens and gives pages behind them back. To run
   the last token again, for its logits, cut it off and append it.
   Errors: USAGE unless 0 <= length <= octet_seq_length. */
OCTET_API octet_status octet_seq_truncate(octet_seq *seq, int64_t length,
                                          octet_error **error);
/* Tokens; those of them in the cache; those that are to be run. */
OCTET_API int64_t octet_seq_length(const octet_seq *seq);
OCTET_API int64_t octet_seq_cached(const octet_seq *seq);
OCTET_API int64_t octet_seq_pending(const octet_seq *seq);
/* [octet_seq_length] Valid until the sequence is changed. */
OCTET_API const int32_t *octet_seq_tokens(const octet_seq *seq);

/*===----------------------------------------------------------------------===*\
|* Steps                                                                      *|
\*===----------------------------------------------------------------------===*/

/* What a step does for one sequence. */
typedef struct octet_entry {
  octet_seq *sequence;
  int64_t tokens;  /* how many of its pending tokens run: 1 to all */
  int64_t outputs; /* how many of the last of these give logits: 0 to `tokens`;
                      the row of a token is about the one after it */
} octet_entry;

/* Room in floats that `logits` of octet_step needs: the sum of `outputs`, times
   vocab. -1 if an entry is not as it should be. */
OCTET_API int64_t octet_step_size(const octet_model *model,
                                  const octet_entry *entries, size_t count);
/* Free pages that octet_step would take, to be compared with
   octet_model_free_pages. -1 if an entry is not as it should be. */
OCTET_API int64_t octet_step_pages(const octet_model *model,
                                   const octet_entry *entries, size_t count);
/* Runs one batch.
   entries   [count] 1 to max_sequences, with at most max_step_tokens tokens
             together; a sequence of this model in at most one of them.
   logits    [outputs, vocab] F32, the rows of the first entry first, in the
             order of its tokens. May be NULL if no entry has outputs.
   capacity  room in `logits`, in floats.
   Errors: USAGE if that is not so; PAGES; MACHINE, INTERNAL. All sequences are
   then as before. */
OCTET_API octet_status octet_step(octet_model *model,
                                  const octet_entry *entries, size_t count,
                                  float *logits, int64_t capacity,
                                  octet_error **error);

/* Runs an extracted module (`octet compile --extract`) on rows of one sequence.
   x         [rows, module_in] F32; 1 <= rows <= max_context.
   y         [rows, module_out] F32.
   capacity  room in `y`, in floats.
   chunk     most rows of a step, 0: as many as fit. Results do not depend on
             it.
   Errors: USAGE if that is not so, or the program is a whole model. */
OCTET_API octet_status octet_evaluate(octet_model *model, const float *x,
                                      int64_t rows, float *y, int64_t capacity,
                                      int64_t chunk, octet_error **error);

/* An intermediate value of a step: of as many rows as the step has tokens, in
   their order. Everything in it is valid during the call only. */
typedef struct octet_trace {
  size_t size;      /* of this struct, in bytes */
  const char *name; /* "hidden", "router.topk_ids" */
  int64_t index;    /* of the layer; negative: none */
  int64_t rows;
  int64_t cols;
  const float *floats;     /* [rows, cols], or NULL if they are integers */
  const int32_t *integers; /* [rows, cols], or NULL if they are floats */
} octet_trace;

typedef void (*octet_trace_fn)(void *user, const octet_trace *trace);

/* Calls `fn` for each intermediate value of the steps from now on; NULL ends
   that. It is called by the thread of octet_step and must not use the model. */
OCTET_API void octet_model_set_trace(octet_model *model, octet_trace_fn fn,
                                     void *user);

/*===----------------------------------------------------------------------===*\
|* Sampling                                                                   *|
\*===----------------------------------------------------------------------===*/

/* Rule P17. The number drawn is a function of (seed, stream, index) alone, so
   what a sequence says depends neither on its batch nor on the machine. */
typedef struct octet_sampler_options {
  size_t size;       /* set by octet_sampler_options_init */
  uint64_t seed;     /* 0 */
  int64_t top_k;     /* of the K largest logits; 0: all */
  float temperature; /* divides the logits; 0: the largest, nothing is drawn */
  float top_p;       /* of the fewest tokens of this probability; 1: all */
  float min_p;       /* of those of at least this share of the largest
                        probability; 0: all */
  int32_t reserved;  /* 0 */
} octet_sampler_options;

OCTET_API void octet_sampler_options_init(octet_sampler_options *options,
                                          size_t size);

/* Chooses a token. Without memory of its own and safe in any thread.
   logits     [vocab] F32.
   stream     number of the sequence, say; index: of the token in it.
   forbidden  [num_forbidden] ids that are never chosen (-inf); may be NULL.
   Errors: USAGE for an option out of its range; INPUT if every logit is NaN,
   -inf or forbidden. */
OCTET_API octet_status octet_sample(const float *logits, int64_t vocab,
                                    const octet_sampler_options *options,
                                    uint64_t stream, uint64_t index,
                                    const int32_t *forbidden,
                                    size_t num_forbidden, int32_t *id,
                                    octet_error **error);

/* How octet_step_draw draws one token: the arguments of octet_sample. */
typedef struct octet_draw {
  const octet_sampler_options *options; /* NULL: greedy */
  uint64_t stream;
  uint64_t index;
} octet_draw;

/* octet_step, with the token after each row of outputs in place of its logits:
   drawn where the model runs, so that a device keeps its logits.
   draws  [num_draws] one for each row, in the order of octet_step.
   ids    [num_draws] -1 where every logit is NaN or -inf.
   Errors: those of octet_step; USAGE for an option, or another number of draws
   than rows. */
OCTET_API octet_status octet_step_draw(octet_model *model,
                                       const octet_entry *entries, size_t count,
                                       const octet_draw *draws,
                                       size_t num_draws, int32_t *ids,
                                       octet_error **error);

/* Natural logarithms of softmax(logits) at some ids.
   values  [count] F32, of ids [count].
   Errors: USAGE if an id is outside of 0 to vocab - 1. */
OCTET_API octet_status octet_log_probs(const float *logits, int64_t vocab,
                                       const int32_t *ids, size_t count,
                                       float *values, octet_error **error);
/* The `count` likeliest ids, the likeliest first, the lower id of equals, and
   their log-probabilities.
   ids, values  [count]; `*found` of them are set: fewer than `count` if fewer
                logits are above -inf. */
OCTET_API octet_status octet_top_log_probs(const float *logits, int64_t vocab,
                                           size_t count, int32_t *ids,
                                           float *values, size_t *found,
                                           octet_error **error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* OCTET_OCTET_H */
