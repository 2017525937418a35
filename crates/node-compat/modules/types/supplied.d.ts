/**
 * Modules of pi's own packages, which are supplied when they are imported: the imported names are checked when they are compiled.
 */
declare module "@earendil-works/*";
